import type { HalfDType } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { Parameter, Span } from './parameter';
import { floatsOf } from './spans';

/**
 * Returns a parameter's whole tensor, with the tag 'param.full'; deferred values are written directly into it. `declared` is
 * the dtype whose size ledgers count. Default: float32.
 */
export function wholeTensor(engine: Engine, parameter: Parameter, declared?: HalfDType): tf.Tensor {
  const { source, shape, size, module } = parameter;
  const tag = { cause: 'param.full', module, declared } as const;
  if (source === null) {
    engine.retag(parameter.tensor, tag);
    return parameter.tensor;
  }
  const tensor = tf.keep(engine.allocate(shape, 'float32', tag));
  try {
    if (engine.hasValues) source.fill(0, floatsOf(engine, { tensor, offset: 0 }, size));
  } catch (error) {
    tensor.dispose();
    throw error;
  }
  parameter.replace(tensor);
  return tensor;
}

/** Writes elements [start, start + length) of a parameter to a span; does not make a deferred parameter whole. */
export function writeValues(
  engine: Engine,
  parameter: Parameter,
  { start, length }: { readonly start: number; readonly length: number },
  target: Span,
): void {
  if (length === 0 || !engine.hasValues) return;
  const floats = floatsOf(engine, target, length);
  if (parameter.source !== null) parameter.source.fill(start, floats);
  else floats.set(floatsOf(engine, { tensor: parameter.tensor, offset: start }, length));
}
