/* The program of a question as an ONNX model in the language of onnx.parser, computed by ONNX Runtime in float32. */
const codeOnnx = (() => {
  "use strict";

  const { array, asWindows, brackets, duplicates, emptyMean, lines, refused, scalar, strange, unless, when } = program;

  function of(q) {
    const windowed = asWindows(q);
    if (q.base === "smooth_max_pool" && q.kind !== "global") return refused("ONNX has no smooth maximum over windows.");
    if (windowed === null) return refused("ONNX has no adaptive pooling, and these bins are not of equal size, so that no windows are the same.");
    if (windowed.base === "avg_pool" && windowed.divisor_override !== null && q.kind !== "global") return refused("ONNX's AveragePool has no divisor.");
    const remark = when(q.kind === "adaptive", "ONNX has no adaptive pooling; bins of equal size are windows.");
    if (q.kind === "global") return whole(q);
    if (states.hasWeight(q.op)) return conv(q);
    return q.base === "max_unpool" ? unpool(q) : pool(windowed, remark);
  }

  const shape = (sizes) => `[${[1, 1, ...sizes].join(", ")}]`;
  const x = (q) => ["x", `float${shape(q.size)}`, array("x", "np.array", q.cells, q.size, "np", ", np.float32)[None, None]")];

  /** The whole program: `inputs` are [name, type, line that makes it], `nodes` the lines of the graph. */
  function model(q, inputs, nodes) {
    const given = [x(q), ...inputs], fed = given.map(([name]) => `"${name}": ${name}`).join(", ");
    return lines("import numpy as np", "import onnxruntime", "from onnx import parser", "", 'model = parser.parse_model("""', '<ir_version: 10, opset_import: ["": 21]>',
      `explored (${given.map(([name, type]) => `${type} ${name}`).join(", ")}) => (float${shape(q.out)} y) {`, nodes.map((node) => `    ${node}`), '}""")', "",
      given.map(([, , line]) => line), "session = onnxruntime.InferenceSession(model.SerializeToString())", `y = session.run(None, {${fed}})[0]`);
  }

  function attributes(q, ...more) {
    const pads = [0, 1].flatMap((side) => q.padding.map((pad) => pad[side]));
    const given = [`kernel_shape = ${brackets(q.kernel_size)}`, `strides = ${brackets(q.stride)}`, when(q.isPadded, `pads = ${brackets(pads)}`), when(q.isDilated, `dilations = ${brackets(q.dilation)}`)];
    return `<${[...given, ...more].filter((each) => each !== null).join(", ")}>`;
  }

  function whole(q) {
    const axes = ["axes", `int64[${q.rank}]`, `axes = np.array(${brackets(q.size.map((_, axis) => axis + 2))})`];
    const beta = ["beta", "float", `beta = np.array(${scalar(q.beta, "np")}, np.float32)`];
    if (q.isMin) return unless(strangeMax(q), model(q, [axes], ["y = ReduceMin<keepdims = 1>(x, axes)"]));
    if (q.base === "smooth_max_pool") return unless(null, model(q, [beta, axes], ["scaled = Mul(x, beta)", "sum = ReduceLogSumExp<keepdims = 1>(scaled, axes)", "y = Div(sum, beta)"]));
    return unless(q.hasWinners ? strangeMax(q) : null, model(q, [], [`y = ${q.hasWinners ? "GlobalMaxPool" : "GlobalAveragePool"}(x)`]));
  }

  const strangeMax = (q) => when(q.hasStrange, "ONNX Runtime starts a maximum from the least finite number, and drops NaN.");
  const emptyMax = (q) => when(q.hasEmpty, `A window without a real cell gives the ${q.isMin ? "greatest" : "least"} finite number in ONNX Runtime, and 0 here.`);

  const PADDED = "ONNX Runtime refuses a padding that is not smaller than the kernel.";
  const isPaddedMuch = (q) => q.padding.some((pad, axis) => Math.max(...pad) >= q.kernel_size[axis]);

  function pool(q, remark) {
    if (isPaddedMuch(q)) return refused(PADDED);
    const ceil = when(q.ceil_mode, "ceil_mode = 1");
    if (q.base === "avg_pool") return unless(emptyMean(q), model(q, [], [`y = AveragePool${attributes(q, ceil, when(q.isPadded && q.count_include_pad, "count_include_pad = 1"))}(x)`]), remark);
    const node = `MaxPool${attributes(q, ceil)}`;
    return unless(emptyMax(q) ?? strangeMax(q), model(q, [], q.isMin ? ["turned = Neg(x)", `most = ${node}(turned)`, "y = Neg(most)"] : [`y = ${node}(x)`]), remark);
  }

  function conv(q) {
    if (q.base === "conv_transpose" && q.output_padding.some((extra, axis) => extra && extra >= q.stride[axis])) return refused("ONNX Runtime refuses an output_padding that is not smaller than the stride.");
    const weight = ["weight", `float${shape(q.kernel_size)}`, array("weight", "np.array", q.weight, q.kernel_size, "np", ", np.float32)[None, None]")];
    const bias = ["bias", "float[1]", `bias = np.array([${scalar(q.bias ?? 0, "np")}], np.float32)`], inputs = q.bias === null ? [weight] : [weight, bias];
    const extra = when(q.base === "conv_transpose" && q.output_padding.some(Boolean), `output_padding = ${brackets(q.output_padding)}`);
    const node = `${q.base === "conv" ? "Conv" : "ConvTranspose"}${attributes(q, extra)}(${["x", ...inputs.map(([name]) => name)].join(", ")})`;
    return unless(strange(q, "ONNX Runtime"), model(q, inputs, [`y = ${node}`]));
  }

  function unpool(q) {
    if (q.indices.some((i) => i < 0)) return refused("ONNX's MaxUnpool has no index −1, which drops a cell here.");
    if (isPaddedMuch(q)) return refused(PADDED);
    const inputs = [["indices", `int64${shape(q.size)}`, array("indices", "np.array", q.indices, q.size, "np", ")[None, None]")], ["shape", `int64[${q.rank + 2}]`, `shape = np.array(${shape(q.out)})`]];
    return unless(duplicates(q), model(q, inputs, [`y = MaxUnpool${attributes({ ...q, isDilated: false })}(x, indices, shape)`]));
  }

  return Object.freeze({ of });
})();
