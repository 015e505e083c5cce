"""JUnit XML, which continuous integration shows: a suite per implementation, a test per rule and finding."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as Xml


def as_junit(data: dict[str, Any]) -> str:
    """A new finding is a failure; a known one passes with its reference; what is not installed is skipped."""
    root = Xml.Element("testsuites", name="windowgrad conform")
    for implementation in data["implementations"]:
        root.append(suite(implementation))
    Xml.indent(root)
    return str(Xml.tostring(root, encoding="unicode", xml_declaration=True)) + "\n"


def suite(implementation: dict[str, Any]) -> Xml.Element:
    findings = implementation["findings"]
    name = f"{implementation['title']} {implementation['version'] or ''}".strip()
    element = Xml.Element("testsuite", name=name, time=str(implementation["seconds"]))
    if not implementation["installed"]:
        Xml.SubElement(test(element, implementation, "installed"), "skipped", message="not installed")
    for rule, counts in implementation["matrix"].items():
        if counts["agrees"]:
            test(element, implementation, f"{rule}: {counts['agrees']} checks agree")
    for finding in findings:
        case = test(element, implementation, f"{finding['rule']}: {finding['check']} of {finding['call']} {finding['kind']}")
        if finding["known"] is None:
            failure = Xml.SubElement(case, "failure", type=finding["kind"], message=headline(finding))
            failure.text = legal(finding["script"])
        else:
            Xml.SubElement(case, "system-out").text = legal(
                f"known: {finding['known']['what']} ({finding['known']['reference']})"
            )
    failures = sum(finding["known"] is None for finding in findings)
    skipped = int(not implementation["installed"])
    element.attrib |= {"tests": str(len(element)), "failures": str(failures), "skipped": str(skipped), "errors": "0"}
    return element


def test(parent: Xml.Element, implementation: dict[str, Any], name: str) -> Xml.Element:
    return Xml.SubElement(parent, "testcase", classname=f"conform.{implementation['name']}", name=legal(name))


def headline(finding: dict[str, Any]) -> str:
    if "difference" in finding:
        return f"expected {finding['difference']['expected']}, got {finding['difference']['got']}"
    return legal(finding["message"].partition("\n")[0])


def legal(text: str) -> str:
    """Without the control characters that XML has no way to say."""
    return "".join(character for character in text if character >= " " or character in "\n\t")
