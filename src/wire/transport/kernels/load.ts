import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HalfDType, WireDType } from '../../../core';

type Reduce = (
  op: number,
  target: number,
  table: number,
  numSources: number,
  length: number,
  divisor: number,
) => void;
type Convert = (target: number, source: number, length: number) => void;
/** For each 16-bit wire dtype, a function that converts an array; other wire dtypes have no function. */
type Conversions = Readonly<Record<HalfDType, Convert> & Partial<Record<WireDType, Convert>>>;

/** The functions of assembly/index.ts by wire dtype; targets, tables and sources are byte offsets in the kernels' memory. */
export interface ReductionKernels {
  readonly reduce: Readonly<Record<WireDType, Reduce>>;
  /** Converts float32 to the 16-bit type. */
  readonly narrow: Conversions;
  /** Converts the 16-bit type to float32. */
  readonly widen: Conversions;
}

/** Reads and compiles the kernels; the caller instantiates the result once per memory. */
export function compileKernels(): WebAssembly.Module {
  return new WebAssembly.Module(readFileSync(join(__dirname, 'kernels.wasm')));
}

export function instantiateKernels(module: WebAssembly.Module, memory: WebAssembly.Memory): ReductionKernels {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  // The module exports the functions that assembly/index.ts declares.
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
