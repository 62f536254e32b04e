import { z } from 'zod';
import { countSchema, functionSchema, ofKind } from '../config';
import { Module } from '../nn';
import type { DeviceMesh } from '../wire';
import type { MixedPrecision } from './precision/mixed-precision';
import type { WrapPolicy } from './wrap-policy';

/** Whether a value is an object in which all these names can be read. */
function has(value: unknown, ...names: readonly string[]): boolean {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

/** A mesh of ranks. */
export const MESH_VALUE = ofKind<DeviceMesh>({
  words: "a mesh, such as initDeviceMesh([4], ['shard'])",
  accepts: (value) => has(value, 'axisNames', 'group'),
});

/** Modules of a model. */
export const MODULES = ofKind<readonly Module[]>({
  words: 'a list of modules, such as [model.wte]',
  accepts: (value) =>
    has(value) &&
    Symbol.iterator in Object(value) &&
    [...(value as Iterable<unknown>)].every((each) => each instanceof Module), // a value with an iterator
});

/** Types of values, as `MixedPrecisionPolicy` makes them. */
export const POLICY = ofKind<MixedPrecision>({
  words: "a policy, such as MixedPrecisionPolicy({ paramDtype: 'bfloat16' })",
  accepts: (value) => has(value, 'paramDtype', 'reduceDtype', 'castForwardInputs'),
});

/** A function that chooses modules. */
export const WRAP_POLICY = functionSchema<WrapPolicy>();

/** When backward gathers the next unit; null: no prefetch. */
export const PREFETCH = z.enum(['BACKWARD_PRE', 'BACKWARD_POST']).nullable();

/** Whether whole parameters are freed after forward, or over how many ranks they are sharded then. */
export const RESHARD = z.union([z.boolean(), countSchema]).nullable();
