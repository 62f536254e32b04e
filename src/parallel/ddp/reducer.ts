import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../../backend/engine';
import { ConfigError } from '../../core/errors';
import type { ProcessGroup, Work } from '../../dist/types';
import type { Parameter } from '../../nn/parameter';
import { settled } from '../settled';
import { assignBuckets, type BucketSizes } from './buckets';

interface Bucket {
  readonly parameters: readonly Parameter[];
  missing: Set<Parameter>;
}

/**
 * Averages gradients over ranks, bucket by bucket, beside the rest of backward. A bucket is started when all its
 * gradients are there and all buckets before it were started, so that every rank starts them in the same order.
 * Gradients are reduced where they lie: a bucket is a list of tensors. Source: torch's c10d Reducer.
 */
export class Reducer {
  readonly #engine: Engine;
  readonly #group: ProcessGroup;
  readonly #buckets: readonly Bucket[];
  readonly #bucketOf = new Map<Parameter, Bucket>();
  #started = 0;
  #works: Work<void>[] = [];
  #sync = true;

  constructor(engine: Engine, group: ProcessGroup, parameters: readonly Parameter[], sizes: BucketSizes) {
    this.#engine = engine;
    this.#group = group;
    this.#buckets = assignBuckets(parameters, sizes).map((bucket) => ({
      parameters: bucket,
      missing: new Set(bucket),
    }));
    for (const bucket of this.#buckets) {
      for (const parameter of bucket.parameters) this.#bucketOf.set(parameter, bucket);
    }
  }

  /** Parameters of every bucket, in the order of reduction. */
  get buckets(): readonly (readonly Parameter[])[] {
    return this.#buckets.map((bucket) => bucket.parameters);
  }

  /** Gradients of backwards within `work` stay local and add up. */
  noSync<T>(work: () => T): T {
    const before = this.#sync;
    this.#sync = false;
    try {
      return work();
    } finally {
      this.#sync = before;
    }
  }

  /** A forward begins: forgets the reductions of a backward that was broken off; gradients stay. */
  begin(): void {
    for (const work of this.#works) settled(work);
    this.#restart();
  }

  /**
   * Takes a gradient over; the last one of a bucket starts its reduction.
   * Throws: CONFIG for a gradient that comes when its bucket is on its way.
   */
  add(parameter: Parameter, grad: tf.Tensor | null): void {
    const bucket = this.#bucketOf.get(parameter);
    if (grad !== null) {
      if (bucket !== undefined && this.#buckets.indexOf(bucket) < this.#started)
        throw tooLate(parameter, grad);
      this.#accumulate(parameter, grad);
    }
    if (!this.#sync) return;
    bucket?.missing.delete(parameter);
    while (this.#buckets[this.#started]?.missing.size === 0) this.#start();
  }

  /** The end of backward: starts what is left (unused parameters count as zeros) and waits for all. */
  finish(): void {
    if (!this.#sync) return;
    while (this.#started < this.#buckets.length) this.#start();
    const works = this.#works;
    this.#restart();
    for (const work of works) work.wait();
  }

  /** Forgets an interrupted backward: its reductions will not end. */
  abandon(): void {
    this.begin();
    for (const bucket of this.#buckets) {
      for (const parameter of bucket.parameters) parameter.state.zeroGrad();
    }
  }

  #restart(): void {
    this.#works = [];
    this.#started = 0;
    for (const bucket of this.#buckets) bucket.missing = new Set(bucket.parameters);
  }

  #accumulate(parameter: Parameter, grad: tf.Tensor): void {
    if (parameter.grad === null) {
      this.#engine.retag(grad, { cause: 'grad.full', module: parameter.module });
      parameter.grad = grad;
      return;
    }
    this.#engine.addInto(parameter.grad, grad);
    grad.dispose();
  }

  #start(): void {
    const bucket = this.#buckets[this.#started++];
    if (bucket === undefined) return;
    const pieces = bucket.parameters.map((parameter) => {
      parameter.grad ??= this.#zeros(parameter);
      return { tensor: parameter.grad, offset: 0, length: parameter.size };
    });
    const module = bucket.parameters[0]?.module ?? '';
    this.#works.push(this.#group.allReducePieces(pieces, 'avg', { async: true, cause: 'grad', module }));
  }

  #zeros(parameter: Parameter): tf.Tensor {
    const tag = { cause: 'grad.full', module: parameter.module } as const;
    const zeros = tf.keep(this.#engine.allocate(parameter.shape, 'float32', tag));
    this.#engine.fill(zeros, 0);
    return zeros;
  }
}

function tooLate(parameter: Parameter, grad: tf.Tensor): ConfigError {
  grad.dispose();
  return new ConfigError(
    `module "${parameter.module}" ran more than once in this forward: a gradient of ${parameter.name} came when its bucket was ` +
      'already being reduced. Give DDP { policy: rootOnly }, so that gradients are reduced once all are there',
  );
}
