import { SILENT } from '../../../src/core/events';
import { type Random, seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { contentsOf } from '../../../src/nn/contents';
import { Module } from '../../../src/nn/module';
import { Parameter } from '../../../src/nn/parameter';
import { readState, writeState } from '../../../src/nn/state-values';
import { FsdpUnit } from '../../../src/sharding/fsdp/fsdp-unit';
import { chunkOf, paddingOf, shardLayout } from '../../../src/sharding/fsdp/shard-layout';
import { placementOf, RowsOfRanks } from '../../../src/sharding/fsdp/unit-placement';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';

/** Measurements of one rank for one random unit. */
export interface UnitResult {
  readonly shapes: readonly (readonly number[])[];
  /** Elements of all parameters, of this rank's shard, and of padding in it. */
  readonly whole: number;
  readonly shard: number;
  readonly padding: number;
  readonly shardBytes: number;
  /** Whether gathered parameters equal those before sharding. */
  readonly gathered: boolean;
  /** Whether the shard of reduced gradients is this rank's part of their mean, with zeros in the padding. */
  readonly reduced: boolean;
  /** Whether the reduced shards, gathered, equal the result of an all-reduce. */
  readonly likeAllReduce: boolean;
}

interface UnitArgs extends RankArgs {
  readonly cases: number;
}

class Bag extends Module {
  constructor(tensors: readonly tf.Tensor[]) {
    super();
    for (const [i, tensor] of tensors.entries()) this.addParameter(`p${i}`, new Parameter(tensor));
  }
  forward(): tf.Tensor {
    throw new Error('never called');
  }
}

runAsRank<UnitArgs>((rank) => {
  const random = seeded(11, 'unit shapes'); // the same on all ranks
  return Array.from({ length: rank.args.cases }, () => check(rank, random));
});

function check({ engine, group, tally }: TestRank<UnitArgs>, random: Random): UnitResult {
  const shapes = Array.from({ length: 1 + random.integer(4) }, () => {
    return Array.from({ length: 1 + random.integer(3) }, () => 1 + random.integer(7));
  });
  const start = tally.bytes('param.shard');
  const values = shapes.map((shape) => integers(shape, random));
  const module = new Bag(values.map((array, i) => tf.tensor(array, shapes[i], 'float32')));
  const unit = new FsdpUnit([module], module.parameters(), {
    engine,
    observer: SILENT,
    module: module.path,
    contents: contentsOf(module.path, module.parameters()),
    placement: placementOf('FULL_SHARD', undefined, { group, rows: new RowsOfRanks() }),
    ...{ onHost: false, half: null, gradHalf: null, keepsGradHalf: false, missingAreZeros: false },
    ...{ tables: [], syncGroup: null },
  });
  const shardBytes = tally.bytes('param.shard') - start;
  unit.waitForUnshard();
  const gathered = module.parameters().every(({ tensor }, i) => same(tensor.dataSync(), values[i]));
  unit.reshard();
  const reduction = reduceIntegers({ engine, group, unit }, shapes, random);
  const layout = shardLayout(unit.members, group.size);
  unit.dispose();
  return {
    shapes,
    whole: module.numParams(),
    shard: layout.size,
    padding: paddingOf(layout, group.rank),
    shardBytes,
    gathered,
    ...reduction,
  };
}

interface Reducing {
  readonly engine: TestRank<UnitArgs>['engine'];
  readonly group: TestRank<UnitArgs>['group'];
  readonly unit: FsdpUnit;
}

/** Gradients that are multiples of the number of ranks: their mean is exact. */
function reduceIntegers({ engine, group, unit }: Reducing, shapes: readonly number[][], random: Random) {
  const { size, rank } = group;
  const byParameter = shapes.map((shape) => integers(shape, random));
  // Rank r's gradient is (r + 1) · size · base, so the mean is base · size · (size + 1) / 2.
  const grads = byParameter.map((base, i) =>
    tf.tensor(
      base.map((value) => value * size * (rank + 1)),
      shapes[i],
    ),
  );
  const mean = byParameter.map((base) => base.map((value) => (value * size * (size + 1)) / 2));
  unit.gradients.add(unit.gradients.reduce(grads.map((grad) => tf.keep(grad.clone()))));
  const own = readState(engine, unit.trained, 'grad');
  const reduced = shardLayout(unit.members, size).entries.every((entry, i) => {
    const { start, length } = chunkOf(entry, rank);
    const part = own.subarray(entry.offset, entry.offset + entry.chunk);
    const expected = mean[i]?.subarray(start, start + length);
    return same(part.subarray(0, length), expected) && part.subarray(length).every((value) => value === 0);
  });
  writeState(engine, unit.trained, 0, own);
  unit.waitForUnshard();
  const likeAllReduce = unit.members.every((parameter, i) => {
    const grad = grads[i];
    if (grad === undefined) return false;
    group.allReduce(grad, 'avg').wait();
    return same(grad.dataSync(), parameter.tensor.dataSync());
  });
  tf.dispose(grads);
  return { reduced, likeAllReduce };
}

function integers(shape: readonly number[], random: Random): Float32Array {
  const size = shape.reduce((product, extent) => product * extent, 1);
  return Float32Array.from({ length: size }, () => random.integer(1000) - 500);
}

function same(a: ArrayLike<number>, b: ArrayLike<number> | undefined): boolean {
  return b !== undefined && a.length === b.length && Array.from(a).every((value, i) => value === b[i]);
}
