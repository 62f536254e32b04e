import { flagSchema, parseOptions, type ShapeOf } from '../../config';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import {
  contentsOf,
  copyElements,
  type Module,
  type Parameter,
  readState,
  type StateBuffer,
  writePart,
} from '../../nn';
import { shardLayout, sharesOf } from '../fsdp/shard-layout';

/** Options of `summonFullParams`. */
export interface SummonOptions {
  /** Whether values that `work` writes into whole parameters are written to the shards. Default false. */
  readonly writeback?: boolean;
}

/** A parameter that is whole while `work` runs. */
interface Summoned {
  readonly parameter: Parameter;
  readonly whole: tf.Tensor;
  /** The parameter's earlier tensor; null if the parameter was not whole. */
  readonly before: tf.Tensor | null;
}

const SUMMON = { writeback: flagSchema.default(false) } satisfies ShapeOf<SummonOptions>;

const NAME = 'FSDP.summonFullParams()';

/**
 * Makes every parameter of a model whole on every rank, in float32, runs `work` (which may be asynchronous), and frees the
 * whole parameters. Changes that `work` makes to the parameters or their tensors persist only with `writeback: true`; all
 * ranks must then make the same changes. Do not run the model inside `work`. This function is a collective: every rank must
 * call it. Each rank needs the memory of the whole model. Source: FullyShardedDataParallel.summon_full_params.
 * Throws: COLLECTIVE_MISSING if a rank did not call this function; SHAPE if `work` gives a parameter a tensor of another
 * shape; errors of `work`. After an error, nothing is written.
 */
export function summonFullParams<T>(
  engine: Engine,
  model: Module,
  work: () => T,
  options: SummonOptions = {},
): T {
  const { writeback } = parseOptions('FSDP.summonFullParams(model, work, { … })', options, SUMMON);
  const states = [...new Set(model.parameters().map(({ state }) => state))];
  const summoned = new Map<StateBuffer, Summoned[]>();
  const release = (): void => {
    for (const whole of [...summoned.values()].flat()) dismiss(whole);
    summoned.clear();
  };
  const forget = engine.onRecover(release);
  const end = (keeps: boolean): void => {
    forget();
    const written = keeps ? [...summoned].map(([state, ones]) => [state, ones.map(valuesOf)] as const) : [];
    release();
    for (const [state, wholes] of written) writeBack(engine, state, wholes);
  };
  const fail = (error: unknown): never => {
    forget();
    release();
    throw error;
  };
  try {
    for (const state of states) summoned.set(state, summon(engine, state));
    const result = work();
    if (!(result instanceof Promise)) {
      end(writeback);
      return result;
    }
    const ended = result.then((value: unknown) => {
      end(writeback);
      return value;
    });
    // The promise has the same value as the result of `work`.
    return ended.catch(fail) as T;
  } catch (error) {
    return fail(error);
  }
}

/** Gathers the parameters of a state buffer, and puts the whole tensors in their place. */
function summon(engine: Engine, state: StateBuffer): Summoned[] {
  const parameters = state.slices.map(({ parameter }) => parameter);
  if (parameters.length === 0) return [];
  const group = state.shardGroup;
  const tag = { cause: 'comm', module: state.module } as const;
  const own = engine.tagged(tag, () => tf.tensor(readState(engine, state), [state.size], 'float32'));
  const wholes: tf.Tensor[] = [];
  try {
    for (const { shape, module } of parameters) {
      wholes.push(tf.keep(engine.allocate(shape, 'float32', { cause: 'param.full', module })));
    }
    const input = [{ tensor: own, offset: 0, length: state.size }];
    const shares = sharesOf(shardLayout(parameters, group?.size ?? 1), wholes);
    if (group === null) copyInto(engine, own, wholes);
    else {
      const contents = contentsOf(state.module, parameters);
      group.allGatherPieces(input, shares, { cause: 'param', module: NAME, contents }).wait();
    }
  } catch (error) {
    for (const whole of wholes) whole.dispose();
    throw error;
  } finally {
    own.dispose();
  }
  return parameters.map((parameter, i) => {
    const before = parameter.isWhole ? parameter.tensor : null;
    const whole = wholes[i] as tf.Tensor; // one tensor for each parameter
    parameter.replace(whole);
    return { parameter, whole, before };
  });
}

/** Copies the elements of an unsharded buffer into whole tensors. */
function copyInto(engine: Engine, flat: tf.Tensor, wholes: readonly tf.Tensor[]): void {
  let offset = 0;
  for (const whole of wholes) {
    copyElements(engine, { tensor: flat, offset }, { tensor: whole, offset: 0 }, whole.size);
    offset += whole.size;
  }
}

function dismiss({ parameter, whole, before }: Summoned): void {
  parameter.replace(before);
  whole.dispose();
}

/** Returns the parameter's values after `work`. Throws: SHAPE. */
function valuesOf({ parameter, whole }: Summoned): Float32Array {
  const { shape, name } = parameter;
  const tensor = parameter.isWhole ? parameter.tensor : whole;
  if (tensor.dtype === 'float32' && tensor.shape.join() === shape.join()) {
    return Float32Array.from(tensor.dataSync<'float32'>());
  }
  throw new ShardlabError(
    'SHAPE',
    `${NAME}: ${name} was given a tensor of ${tensor.dtype} ${JSON.stringify(tensor.shape)}; the parameter is float32 ${JSON.stringify(shape)}`,
  );
}

function writeBack(engine: Engine, state: StateBuffer, wholes: readonly Float32Array[]): void {
  state.slices.forEach(({ offset, start, length }, i) => {
    const values = wholes[i];
    if (values !== undefined) writePart(engine, state, offset, values.subarray(start, start + length));
  });
  state.updated();
}
