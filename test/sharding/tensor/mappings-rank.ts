import * as tf from '../../../src/core/tf';
import { runRegion } from '../../../src/engine/autograd/region';
import { gradients } from '../../../src/engine/autograd/unit';
import { Parameter } from '../../../src/nn/parameter';
import {
  copyToTensorParallelRegion,
  gatherFromSequenceParallelRegion,
  gatherFromTensorParallelRegion,
  reduceFromTensorParallelRegion,
  reduceScatterToSequenceParallelRegion,
  scatterToSequenceParallelRegion,
  scatterToTensorParallelRegion,
} from '../../../src/sharding/tensor/mappings';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { runAsRank } from '../../support/rank-process';

type Mapping = (x: tf.Tensor, group: ProcessGroup, module: string) => tf.Tensor;
type Combined = (all: readonly tf.Tensor[], rank: number) => tf.Tensor;

const sum: Combined = (all) => tf.addN([...all]);
const own: Combined = (all, rank) => all[rank] ?? tf.scalar(Number.NaN);
const joined =
  (dim: number): Combined =>
  (all) =>
    tf.concat([...all], dim);
const partOf =
  (dim: number, whole: Combined): Combined =>
  (all, rank) =>
    tf.split(whole(all, rank), all.length, dim)[rank] ?? tf.scalar(Number.NaN);

/** The value of each mapping by all ranks' inputs, and the gradient by all ranks' gradients of the value. */
const EXPECTED: readonly (readonly [mapping: Mapping, value: Combined, gradient: Combined])[] = [
  [copyToTensorParallelRegion, own, sum],
  [reduceFromTensorParallelRegion, sum, own],
  [scatterToTensorParallelRegion, partOf(2, own), joined(2)],
  [gatherFromTensorParallelRegion, joined(2), partOf(2, own)],
  [gatherFromSequenceParallelRegion, joined(1), partOf(1, sum)],
  [reduceScatterToSequenceParallelRegion, partOf(1, sum), joined(1)],
  [scatterToSequenceParallelRegion, partOf(1, own), joined(1)],
];

/** Returns the wrong mappings, and the collectives of each. All numbers are integers, so sums are exact. */
runAsRank(({ engine, group, tally }) => {
  const wrong: string[] = [];
  const sent: Record<string, readonly string[]> = {};
  for (const [mapping, value, gradient] of EXPECTED) {
    const { name } = mapping;
    for (const isRegion of [false, true]) {
      const inputs = group.ranks.map((rank) => numbers([2, 3, 6], 1 + rank));
      const expected = value(inputs, group.rank);
      const weights = group.ranks.map((rank) => numbers(expected.shape, 11 + rank));
      const x = new Parameter(tf.clone(own(inputs, group.rank)));
      tally.restart();
      const run = (input: tf.Tensor): tf.Tensor => mapping(input, group, 'here');
      const pass = gradients(engine, () => {
        const y = isRegion ? runRegion(engine, { module: 'here' }, run, [x.tensor]) : run(x.tensor);
        if (!isEqual(y, expected)) wrong.push(`${name}: value`);
        return tf.sum(tf.mul(y, own(weights, group.rank)));
      });
      pass.backward();
      if (x.grad === null || !isEqual(x.grad, gradient(weights, group.rank))) wrong.push(`${name}: gradient`);
      if (!isRegion)
        sent[name] = tally.collectives.map(({ op, cause, module }) => `${op} ${cause} ${module}`);
    }
  }
  return { wrong, sent };
});

function numbers(shape: readonly number[], seed: number): tf.Tensor {
  const size = tf.util.sizeFromShape([...shape]);
  return tf.tensor(
    Float32Array.from({ length: size }, (_, i) => (seed * 7 + i * 13) % 29),
    [...shape],
  );
}

function isEqual(a: tf.Tensor, b: tf.Tensor): boolean {
  return a.shape.join() === b.shape.join() && a.dataSync().join() === b.dataSync().join();
}
