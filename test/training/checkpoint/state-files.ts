import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readState } from '../../../src/nn/state-values';
import { openCatalog } from '../../../src/training/checkpoint/load/catalog';
import { checksumsOf, StretchReader } from '../../../src/training/checkpoint/load/stretch-reader';
import type { ArrayKind } from '../../../src/training/checkpoint/save/save-layout';
import { buffersOf } from '../../../src/training/checkpoint/state/placement';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';

/** Whole arrays by name: parameters, and optimizer states as 'blocks.0.qkv.weight.exp_avg'. */
export type Arrays = Map<string, Float32Array>;

interface DumpedSlice {
  readonly name: string;
  readonly size: number;
  readonly start: number;
  readonly length: number;
}

/** Writes the state that this rank holds, from its state buffers, without code of checkpoints. */
export function dumpState({ engine, group, model, optimizer }: TrainingState, folder: string): void {
  const names = new Map([...model.namedParameters()].map(([name, parameter]) => [parameter, name]));
  const slices: DumpedSlice[] = [];
  const parts: Buffer[] = [];
  const add = (name: string, size: number, start: number, values: Float32Array): void => {
    slices.push({ name, size, start, length: values.length });
    parts.push(Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  };
  for (const buffer of buffersOf(model.parameters())) {
    for (const { parameter, offset, start, length } of buffer.slices) {
      const name = names.get(parameter) ?? '';
      add(name, parameter.size, start, readState(engine, buffer, 'values', offset, length));
      for (const state of parameter.requiresGrad ? (optimizer?.stateNames ?? []) : []) {
        const values = optimizer?.readState(buffer, state, offset, length);
        if (values !== undefined) add(`${name}.${state}`, parameter.size, start, values);
      }
    }
  }
  writeFileSync(join(folder, `dump.${group.rank}.json`), JSON.stringify(slices));
  writeFileSync(join(folder, `dump.${group.rank}.bin`), Buffer.concat(parts));
}

/** Joins the dumps of all ranks; copies of an element must be equal. */
export function readDump(folder: string, world: number): Arrays {
  const arrays: Arrays = new Map();
  const filled = new Map<string, Uint8Array>();
  for (let rank = 0; rank < world; rank++) {
    // dumpState wrote it.
    const slices = JSON.parse(readFileSync(join(folder, `dump.${rank}.json`), 'utf8')) as DumpedSlice[];
    const bytes = new Uint8Array(readFileSync(join(folder, `dump.${rank}.bin`)));
    const all = new Float32Array(bytes.buffer);
    let from = 0;
    for (const { name, size, start, length } of slices) {
      const whole = arrays.get(name) ?? new Float32Array(size);
      const seen = filled.get(name) ?? new Uint8Array(size);
      arrays.set(name, whole);
      filled.set(name, seen);
      for (let i = 0; i < length; i++) {
        const value = all[from + i] ?? Number.NaN;
        if (seen[start + i] === 1 && !Object.is(whole[start + i], value))
          throw new Error(`rank ${rank} has ${value} for ${name}[${start + i}], another ${whole[start + i]}`);
        whole[start + i] = value;
        seen[start + i] = 1;
      }
      from += length;
    }
  }
  for (const [name, seen] of filled) if (seen.includes(0)) throw new Error(`no rank dumped all of ${name}`);
  return arrays;
}

/** All arrays of a checkpoint. */
export function readCheckpoint(folder: string, kinds: readonly ArrayKind[] = ['model', 'optimizer']): Arrays {
  const arrays: Arrays = new Map();
  for (const kind of kinds) {
    const catalog = openCatalog(folder, kind);
    const reader = new StretchReader(checksumsOf(folder));
    reader.checkHeaders(catalog);
    for (const [name, array] of catalog.arrays) {
      const size = array.shape.reduce((product, extent) => product * extent, 1);
      const whole = new Float32Array(size);
      reader.read(array, { start: 0, length: size }, (values, start) => whole.set(values, start));
      arrays.set(name, whole);
    }
    catalog.close();
  }
  return arrays;
}

/** Names of arrays that differ in a bit, or that one side does not have. */
export function differences(a: Arrays, b: Arrays): string[] {
  const names = new Set([...a.keys(), ...b.keys()]);
  return [...names].filter((name) => {
    const [left, right] = [a.get(name), b.get(name)];
    return left === undefined || right === undefined || bytesOf(left).compare(bytesOf(right)) !== 0;
  });
}

function bytesOf(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}
