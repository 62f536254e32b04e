import { readFileSync } from 'node:fs';
import { join } from 'node:path';

type Reduce = (
  op: number,
  target: number,
  table: number,
  numSources: number,
  length: number,
  divisor: number,
) => void;
type Convert = (target: number, source: number, length: number) => void;

/** Functions of assembly/index.ts; positions are byte offsets in their memory. */
export interface ReductionKernels {
  readonly reduceF32: Reduce;
  readonly reduceI32: Reduce;
  readonly reduceBf16: Reduce;
  readonly reduceF16: Reduce;
  readonly toBf16: Convert;
  readonly fromBf16: Convert;
  readonly toF16: Convert;
  readonly fromF16: Convert;
}

/** Reads and compiles the kernels; instantiate the result once per memory. */
export function compileKernels(): WebAssembly.Module {
  return new WebAssembly.Module(readFileSync(join(__dirname, 'kernels.wasm')));
}

export function instantiateKernels(module: WebAssembly.Module, memory: WebAssembly.Memory): ReductionKernels {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  // The module's exports are what assembly/index.ts declares.
  return exports as unknown as ReductionKernels;
}
