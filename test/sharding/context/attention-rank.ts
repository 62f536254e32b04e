import type { CollectiveEvent } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { attention } from '../../../src/nn/attention';
import { Module } from '../../../src/nn/module';
import { Parameter } from '../../../src/nn/parameter';
import { ContextParallel } from '../../../src/sharding/context/context-parallel';
import { checkpointed } from '../../../src/sharding/recompute/checkpointed';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { normals, relativeDistance, valuesOf } from '../../support/close';
import type { TestRank } from '../../support/rank-process';
import type { AttentionCase, Defect } from './attention-cases';

/** What a rank found in one case. */
export interface AttentionResult {
  /** The largest relative distance to plain attention on the whole sequence: of the output and the gradients of q, k and v. */
  readonly distance: number;
  /** Elements that the rank received in forward, and in backward (with a second forward, if there is one). */
  readonly forward: number;
  readonly backward: number;
  readonly events: readonly Pick<CollectiveEvent, 'op' | 'cause' | 'module'>[];
  readonly leftBytes: number;
}

type Heads = readonly [q: tf.Tensor, k: tf.Tensor, v: tf.Tensor];

/** Attention whose queries, keys and values are parameters, so that they have gradients. */
class Attending extends Module {
  readonly q: Parameter;
  readonly k: Parameter;
  readonly v: Parameter;
  readonly #attend: (...heads: Heads) => tf.Tensor;

  constructor([q, k, v]: Heads, attend: (...heads: Heads) => tf.Tensor) {
    super();
    [this.q, this.k, this.v] = [new Parameter(q), new Parameter(k), new Parameter(v)];
    this.#attend = attend;
  }

  forward(): tf.Tensor {
    return this.#attend(this.q.tensor, this.k.tensor, this.v.tensor);
  }
}

/** Compares attention over the ranks with attention in one process, which each rank computes too. */
export function compareAttention(rank: TestRank<unknown>, one: AttentionCase): AttentionResult {
  const { engine, tally } = rank;
  const before = engine.memory.bytes;
  const { kind, order, ulyssesDegree, causal, heads, kvHeads, own, headDim, batch } = one;
  const group = one.defect === undefined ? rank.group : broken(rank.group, one.defect);
  const context = new ContextParallel(group, { kind, order, ulyssesDegree });
  const [q, k, v, dOut] = [heads, kvHeads, kvHeads, heads].map((number, i) => {
    const shape = [batch, own * group.size, number, headDim];
    return tf.tensor(
      normals(
        shape.reduce((a, b) => a * b),
        i,
      ),
      shape,
    );
  }) as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // four
  const ofRank = (x: tf.Tensor): tf.Tensor => tf.tidy(() => context.cut(x));
  const plain = new Attending([q, k, v], (...parts) => attention(...parts, { causal }));
  const divided = new Attending([ofRank(q), ofRank(k), ofRank(v)], (...parts) =>
    context.attention(...parts, { causal }),
  );
  if (one.isRecomputed === true) checkpointed(rank, divided);
  const ownGradient = ofRank(dOut);
  const expected = run(engine, plain, dOut).values;
  tally.restart();
  const { values, mark } = run(engine, divided, ownGradient, () => tally.collectives.length);
  const events = tally.collectives;
  const distances = values.map((value, i) => {
    const whole = expected[i];
    return relativeDistance(
      valuesOf(value),
      tf.tidy(() => valuesOf(whole === undefined ? value : context.cut(whole))),
    );
  });
  tf.dispose([dOut, ownGradient, ...expected, ...values]);
  plain.dispose();
  divided.dispose();
  return {
    distance: Math.max(...distances),
    forward: elements(events.slice(0, mark)),
    backward: elements(events.slice(mark)),
    events: events.map(({ op, cause, module }) => ({ op, cause, module })),
    leftBytes: engine.memory.bytes - before,
  };
}

/** Returns the output and the gradients of q, k and v; and `mark()` between forward and backward. */
function run(
  engine: Engine,
  module: Attending,
  dOut: tf.Tensor,
  mark = (): number => 0,
): { readonly values: tf.Tensor[]; readonly mark: number } {
  let out: tf.Tensor | undefined;
  const pass = gradients(engine, () => {
    const found = module.apply();
    out = tf.keep(tf.clone(found));
    return tf.sum(tf.mul(found, dOut));
  });
  const between = mark();
  pass.backward();
  pass.loss.dispose();
  const grads = [module.q, module.k, module.v].map(({ grad }) => tf.keep(tf.clone(grad as tf.Tensor))); // all have one
  return { values: [out as unknown as tf.Tensor, ...grads], mark: between }; // forward has run
}

function elements(events: readonly CollectiveEvent[]): number {
  return events.reduce((sum, { wireBytes }) => sum + wireBytes / 4, 0);
}

/** The group with a defect: the ring sends blocks of another sequence, or heads go to other ranks. */
function broken(group: ProcessGroup, defect: Defect): ProcessGroup {
  const swapped = (tensor: tf.Tensor): tf.Tensor => tf.reverse(tensor, 0);
  const overrides: Partial<ProcessGroup> =
    defect === 'swapped block'
      ? { send: (tensor, destination, options) => group.send(swapped(tensor), destination, options) }
      : { allToAll: (tensor, options) => group.allToAll(swapped(tensor), options) };
  return new Proxy(group, {
    get(target, key) {
      const value: unknown = Reflect.get(overrides, key) ?? Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
