import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HalfDType, WireDType } from '../../core/dtypes';

type Reduce = (
  op: number,
  target: number,
  table: number,
  numSources: number,
  length: number,
  divisor: number,
) => void;
type Convert = (target: number, source: number, length: number) => void;
/** Types of four bytes have no conversion. */
type Conversions = Readonly<Record<HalfDType, Convert> & Partial<Record<WireDType, Convert>>>;

/** The functions of assembly/index.ts by wire dtype; targets, tables and sources are byte offsets in their memory. */
export interface ReductionKernels {
  readonly reduce: Readonly<Record<WireDType, Reduce>>;
  /** From float32 to 16 bits. */
  readonly narrow: Conversions;
  /** From 16 bits to float32. */
  readonly widen: Conversions;
}

/** Reads and compiles the kernels; instantiate the result once per memory. */
export function compileKernels(): WebAssembly.Module {
  return new WebAssembly.Module(readFileSync(join(__dirname, 'kernels.wasm')));
}

export function instantiateKernels(module: WebAssembly.Module, memory: WebAssembly.Memory): ReductionKernels {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  // The module's exports are what assembly/index.ts declares.
  const reduce = (name: string) => exports[`reduce${name}`] as Reduce;
  const convert = (name: string) => exports[name] as Convert;
  return {
    reduce: {
      float32: reduce('F32'),
      int32: reduce('I32'),
      bfloat16: reduce('Bf16'),
      float16: reduce('F16'),
    },
    narrow: { bfloat16: convert('toBf16'), float16: convert('toF16') },
    widen: { bfloat16: convert('fromBf16'), float16: convert('fromF16') },
  };
}
