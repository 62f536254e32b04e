import * as tf from '../core/tf';
import { Embedding } from './embedding';
import { GPT2 } from './linear';
import { Module } from './module';

/** Sizes of a `RelativePositions`. */
export interface RelativePositionsShape {
  readonly heads: number;
  readonly buckets: number;
  /** Distance from which on all positions share one bucket. */
  readonly farthest: number;
}

/**
 * A bias for attention's scores that depends on the distance of a key from its query, separately before and after it:
 * near distances have their own buckets, farther ones share buckets logarithmically. Shapes: x [B, T, …], only T is
 * used → [heads, T, T].
 * Source: Raffel et al. 2020, section 2.1; Hugging Face's T5Attention.
 */
export class RelativePositions extends Module {
  readonly embedding: Embedding;
  readonly #shape: RelativePositionsShape;

  constructor(shape: RelativePositionsShape) {
    super();
    this.#shape = shape;
    const { buckets, heads } = shape;
    this.embedding = new Embedding(buckets, heads, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const positions = x.shape[1] ?? 0;
    const ids = tf.tensor1d(bucketsOf(positions, this.#shape), 'int32');
    const rows = this.embedding.apply(ids);
    return tf.reshape(tf.transpose(rows), [this.#shape.heads, positions, positions]);
  }
}

/** The bucket of every pair of query and key. */
function bucketsOf(positions: number, { buckets, farthest }: RelativePositionsShape): Int32Array {
  const ofSide = buckets >> 1;
  const numExact = ofSide >> 1;
  const perLog = (ofSide - numExact) / Math.log(farthest / numExact);
  const byDistance = Array.from({ length: positions }, (_, distance) => {
    if (distance < numExact) return distance;
    return Math.min(ofSide - 1, numExact + Math.floor(Math.log(distance / numExact) * perLog));
  });
  return Int32Array.from({ length: positions * positions }, (_, i) => {
    const distance = (i % positions) - Math.floor(i / positions);
    return (byDistance[Math.abs(distance)] ?? 0) + (distance > 0 ? ofSide : 0);
  });
}
