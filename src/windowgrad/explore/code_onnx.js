/* The program of a question as an ONNX model in the language of onnx.parser, computed by ONNX Runtime in float32. */
const codeOnnx = (() => {
  "use strict";

  const { array, asWindows, brackets, duplicates, emptyMean, lines, refused, scalar, strange, unless, when } = program;
  const FLOAT = ", np.float32)[None, None]";
  const NO_BINS = "ONNX has no adaptive pooling, and these bins are not of equal size, so that no windows are the same.";
  const MUCH_PADDING = "ONNX Runtime refuses a padding that is not smaller than the kernel.";

  function of(q) {
    if (q.base === "smooth_max_pool" && q.kind !== "global") return refused("ONNX has no smooth maximum over windows.");
    if (q.kind === "global") return whole(q);
    if (states.hasWeight(q.op)) return conv(q);
    if (q.base === "max_unpool") return unpool(q);
    const windowed = asWindows(q);
    if (windowed === null) return refused(NO_BINS);
    return pool(windowed, when(q.kind === "adaptive", "ONNX has no adaptive pooling; bins of equal size are windows."));
  }

  // --- the model ------------------------------------------------------------------------------------------------------

  const shape = (sizes) => brackets([1, 1, ...sizes]);

  /** The whole program: `inputs` are [name, type, line that makes it], `nodes` the lines of the graph. */
  function model(q, inputs, nodes) {
    const x = ["x", `float${shape(q.size)}`, array("x", "np.array", q.cells, q.size, "np", FLOAT)], given = [x, ...inputs];
    const takes = given.map(([name, type]) => `${type} ${name}`).join(", ");
    const fed = given.map(([name]) => `"${name}": ${name}`).join(", ");
    return lines(
      "import numpy as np", "import onnxruntime", "from onnx import parser", "",
      'model = parser.parse_model("""', '<ir_version: 10, opset_import: ["": 21]>',
      `explored (${takes}) => (float${shape(q.out)} y) {`, nodes.map((node) => `    ${node}`), '}""")', "",
      given.map(([, , line]) => line),
      "session = onnxruntime.InferenceSession(model.SerializeToString())", `y = session.run(None, {${fed}})[0]`,
    );
  }

  function attributes(q, ...more) {
    const pads = [0, 1].flatMap((side) => q.padding.map((pad) => pad[side]));
    const given = [
      `kernel_shape = ${brackets(q.kernel_size)}`,
      `strides = ${brackets(q.stride)}`,
      when(q.isPadded, `pads = ${brackets(pads)}`),
      when(q.isDilated && q.base !== "max_unpool", `dilations = ${brackets(q.dilation)}`),
    ];
    return `<${[...given, ...more].filter((each) => each !== null).join(", ")}>`;
  }

  // --- operators ------------------------------------------------------------------------------------------------------

  const strangeMax = (q) => when(q.hasStrange, "ONNX Runtime starts a maximum from the least finite number, and drops NaN.");
  const isPaddedMuch = (q) => q.padding.some((pad, axis) => Math.max(...pad) >= q.kernel_size[axis]);

  function emptyMax(q) {
    const value = q.isMin ? "greatest" : "least";
    return when(q.hasEmpty, `A window without a real cell gives the ${value} finite number in ONNX Runtime, and 0 here.`);
  }

  function whole(q) {
    const axes = ["axes", `int64[${q.rank}]`, `axes = np.array(${brackets(q.size.map((_, axis) => axis + 2))})`];
    const beta = ["beta", "float", `beta = np.array(${scalar(q.beta, "np")}, np.float32)`];
    const smooth = ["scaled = Mul(x, beta)", "sum = ReduceLogSumExp<keepdims = 1>(scaled, axes)", "y = Div(sum, beta)"];
    if (q.base === "smooth_max_pool") return unless(null, model(q, [beta, axes], smooth));
    if (q.isMin) return unless(strangeMax(q), model(q, [axes], ["y = ReduceMin<keepdims = 1>(x, axes)"]));
    if (q.hasWinners) return unless(strangeMax(q), model(q, [], ["y = GlobalMaxPool(x)"]));
    return unless(null, model(q, [], ["y = GlobalAveragePool(x)"]));
  }

  function pool(q, remark) {
    if (isPaddedMuch(q)) return refused(MUCH_PADDING);
    const ceil = when(q.ceil_mode, "ceil_mode = 1"), node = `MaxPool${attributes(q, ceil)}`;
    if (q.base === "avg_pool") {
      if (q.divisor_override !== null) return refused("ONNX's AveragePool has no divisor.");
      const counts = when(q.isPadded && q.count_include_pad, "count_include_pad = 1");
      return unless(emptyMean(q), model(q, [], [`y = AveragePool${attributes(q, ceil, counts)}(x)`]), remark);
    }
    const nodes = q.isMin ? ["turned = Neg(x)", `most = ${node}(turned)`, "y = Neg(most)"] : [`y = ${node}(x)`];
    return unless(emptyMax(q) ?? strangeMax(q), model(q, [], nodes), remark);
  }

  function conv(q) {
    const isTransposed = q.base === "conv_transpose", hasExtra = isTransposed && q.output_padding.some(Boolean);
    if (hasExtra && q.output_padding.some((extra, axis) => extra && extra >= q.stride[axis]))
      return refused("ONNX Runtime refuses an output_padding that is not smaller than the stride.");
    const line = array("weight", "np.array", q.weight, q.kernel_size, "np", FLOAT);
    const inputs = [["weight", `float${shape(q.kernel_size)}`, line]];
    if (q.bias !== null) inputs.push(["bias", "float[1]", `bias = np.array([${scalar(q.bias, "np")}], np.float32)`]);
    const given = attributes(q, when(hasExtra, `output_padding = ${brackets(q.output_padding)}`));
    const node = `${isTransposed ? "ConvTranspose" : "Conv"}${given}(${["x", ...inputs.map(([name]) => name)].join(", ")})`;
    return unless(strange(q, "ONNX Runtime"), model(q, inputs, [`y = ${node}`]));
  }

  function unpool(q) {
    if (q.indices.some((i) => i < 0)) return refused("ONNX's MaxUnpool has no index −1, which drops a cell here.");
    if (isPaddedMuch(q)) return refused(MUCH_PADDING);
    const line = array("indices", "np.array", q.indices, q.size, "np", ")[None, None]");
    const sizes = ["shape", `int64[${q.rank + 2}]`, `shape = np.array(${shape(q.out)})`];
    const inputs = [["indices", `int64${shape(q.size)}`, line], sizes];
    return unless(duplicates(q), model(q, inputs, [`y = MaxUnpool${attributes(q)}(x, indices, shape)`]));
  }

  return Object.freeze({ of });
})();
