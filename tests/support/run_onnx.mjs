// Runs the models of a job file (argument 1) with a package (argument 3), and writes their outputs to a file (argument 2).
import { readFileSync, writeFileSync } from "node:fs";

const arrays = {
  bool: Uint8Array, uint8: Uint8Array, float32: Float32Array, float64: Float64Array, int64: BigInt64Array,
};

const ort = await import(process.argv[4]);
ort.env.wasm.numThreads = 1;
const answers = [];
for (const { path, feeds } of JSON.parse(readFileSync(process.argv[2]))) {
  const session = await ort.InferenceSession.create(readFileSync(path));
  const tensors = {};
  for (const [name, { type, dims, data }] of Object.entries(feeds)) {
    const numbers = type === "int64" ? data.map(BigInt) : data;
    tensors[name] = new ort.Tensor(type, arrays[type].from(numbers), dims);
  }
  const found = await session.run(tensors);
  const outputs = {};
  for (const name of session.outputNames) {
    outputs[name] = { dims: found[name].dims, data: Array.from(found[name].data, Number) };
  }
  answers.push(outputs);
}
writeFileSync(process.argv[3], JSON.stringify(answers));
