"""JUnit XML, which continuous integration shows: a suite per implementation, a test per rule and finding."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as Xml

from windowgrad.conform.text import printable


def as_junit(data: dict[str, Any]) -> str:
    """A new finding is a failure; a known one passes with its reference; what is not installed is skipped, and an
    implementation that was interrupted has an error."""
    root = Xml.Element("testsuites", name="windowgrad conform")
    for implementation in data["implementations"]:
        root.append(suite(implementation, data["interrupted"]))
    Xml.indent(root)
    return str(Xml.tostring(root, encoding="unicode", xml_declaration=True)) + "\n"


def suite(implementation: dict[str, Any], interrupted: str | None) -> Xml.Element:
    findings = implementation["findings"]
    element = added(None, "testsuite", name=title(implementation), time=str(implementation["seconds"]))
    counts = {"asked": implementation["asked"], "left out": implementation["left_out"]}
    if implementation["newest_tried"]:
        counts["newest version tried"] = implementation["newest_tried"]
    properties = added(element, "properties")
    for name, value in counts.items():
        added(properties, "property", name=name, value=str(value))
    if not implementation["installed"]:
        added(test(element, implementation, "installed"), "skipped", message="not installed")
    if not implementation["finished"]:
        words = f"interrupted by {interrupted} after {implementation['asked']} checks"
        added(test(element, implementation, "finished"), "error", type="interrupted", message=words)
    for rule, kinds in implementation["matrix"].items():
        if kinds["agrees"]:
            test(element, implementation, f"{rule}: {kinds['agrees']} checks agree")
    for finding in findings:
        case = test(element, implementation, f"{finding['rule']}: {finding['check']} of {finding['call']} {finding['kind']}")
        if finding["known"] is None:
            failure = added(case, "failure", type=finding["kind"], message=headline(finding))
            failure.text = printable(finding["script"])
        else:
            words = f"known: {finding['known']['what']} ({finding['known']['reference']})"
            added(case, "system-out").text = printable(words)
    failures = sum(finding["known"] is None for finding in findings)
    skipped, errors = int(not implementation["installed"]), int(not implementation["finished"])
    tests = len(element.findall("testcase"))
    element.attrib |= {"tests": str(tests), "failures": str(failures), "skipped": str(skipped), "errors": str(errors)}
    return element


def test(parent: Xml.Element, implementation: dict[str, Any], name: str) -> Xml.Element:
    return added(parent, "testcase", classname=f"conform.{implementation['name']}", name=name)


def added(parent: Xml.Element | None, tag: str, **attributes: str) -> Xml.Element:
    """A new element. All text of it goes through `printable`: XML has no way to say some characters."""
    clean = {name: printable(value) for name, value in attributes.items()}
    return Xml.Element(tag, clean) if parent is None else Xml.SubElement(parent, tag, clean)


def title(implementation: dict[str, Any]) -> str:
    return f"{implementation['title']} {implementation['version'] or ''}".strip()


def headline(finding: dict[str, Any]) -> str:
    """What is wrong in one line."""
    note = printable(finding["message"].partition("\n")[0])
    if "difference" in finding:
        words = f"expected {finding['difference']['expected']}, got {finding['difference']['got']}"
        return printable(f"{words} ({note})" if note else words)
    return note
