import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { CollectiveOp, CommCause } from '../../src/core/events';

import { buildModel } from '../../src/nn/models/build-model';
import { predictRun, type RunPrediction } from '../support/formulas/zero-units';

import { NAIVE_TWINS } from './contract-cases';
import { type ContractResult, type CountedCause, observeContract, type PlacedCase } from './contract-rank';
import type { NaiveName } from './naive';

/** The measurements of all ranks in a case, and the values of the formulas. */
interface Observed {
  readonly config: TrainConfig;
  readonly naive: NaiveName | undefined;
  readonly prediction: RunPrediction;
  readonly byRank: readonly ContractResult[];
}

const STATES = ['param.shard', 'param.full', 'grad.shard', 'grad.full', 'optimizer'] as const;

/** The contract of every strategy on `world` ranks, case by case; one set of rank processes runs all cases. */
export function contractOf(world: number, given: ReadonlyMap<string, TrainConfigInput>): void {
  const cases = withNaiveTwins(given);
  describe(`${world} ranks`, () => {
    const observed = observe(world, cases);
    observed.catch(() => undefined); // each test that awaits it reports its failure

    const each = (what: string, check: (observed: Observed, t: TestContext) => void): void => {
      for (const name of cases.keys()) {
        test(`${name}: ${what}`, async (t) => {
          const one = (await observed).get(name);
          assert.equal(one?.byRank.length, world);
          check(one, t);
        });
      }
    };

    each('parameters, gradients and optimizer states at rest equal the formula', (one, t) => {
      const { prediction, byRank } = one;
      for (const { atRest, onHost, numParams } of byRank) {
        assert.equal(numParams, prediction.numParams);
        requireBytes(atRest, { ...table(prediction.states), batch: 0, comm: 0 }, 'device');
        requireBytes(onHost, table(prediction.hostStates), 'host');
      }
      t.diagnostic(`device: ${spell(table(prediction.states))}; padding ${4 * prediction.padding} B in all`);
      if (prediction.hostStates.length > 0) t.diagnostic(`host: ${spell(table(prediction.hostStates))}`);
    });

    each('parameters and gradients at their peak equal the formula, term by term', (one, t) => {
      for (const { cause, bytes, terms } of one.prediction.peaks) {
        for (const { peaks } of one.byRank) {
          const measured = peaks[cause as CountedCause]; // one of those
          assert.equal(
            measured.bytes,
            bytes,
            `${cause}: formula ${spell(terms)}; measured ${spell(measured.byModule)}`,
          );
        }
        if (bytes > 0) t.diagnostic(`${cause}: ${spell(terms)}`);
      }
    });

    each('collectives and bytes on the wire equal the formula, except scalars', (one, t) => {
      const { prediction, byRank, config } = one;
      const { wireBytes, collectives } = prediction;
      for (const result of byRank) {
        const count = (op: CollectiveOp, cause: CommCause): number =>
          result.collectives.filter((event) => event.op === op && event.cause === cause).length;
        assert.equal(count('allGather', 'param'), collectives.allGather, 'all-gathers of parameters');
        assert.equal(count('reduceScatter', 'grad'), collectives.reduceScatter, 'reduce-scatters');
        const numReductions = one.naive === 'DDP' ? numTrained(config) : collectives.allReduce;
        assert.equal(count('allReduce', 'grad'), numReductions, 'all-reduces of gradients');
        assert.equal(count('broadcast', 'param'), 0, 'broadcasts');
        assert.equal(received(result, 'loss'), scalarBytes(result.rank, world));
      }
      const total = (cause: CommCause): number =>
        byRank.reduce((sum, result) => sum + received(result, cause), 0);
      requireClose(total('param'), world * wireBytes.param, 'parameters');
      requireClose(total('grad'), world * wireBytes.grad, 'gradients');
      t.diagnostic(
        `${collectives.allGather} all-gathers of ${wireBytes.param} B; ${collectives.reduceScatter} reduce-scatters and ` +
          `${collectives.allReduce} all-reduces of ${wireBytes.grad} B a rank, ${config.accumulation} microbatches`,
      );
    });

    each('the ledger equals memory to the byte, and memory does not grow and is freed', ({ byRank }) => {
      for (const { observedBytes, engineBytes, growth, left } of byRank) {
        assert.equal(observedBytes, engineBytes);
        assert.equal(growth, 0);
        assert.equal(left, 0);
      }
    });

    if (world % 2 === 0) {
      test('FULL_SHARD on 4 blocks: 5 gathers in forward, 4 in backward because the root stays whole, 5 reductions', async () => {
        for (const { collectives } of (await observed).get('FULL_SHARD')?.byRank ?? []) {
          const modules = (op: string): string[] =>
            collectives.filter((event) => event.op === op && event.async).map(({ module }) => module);
          const blocks = Array.from({ length: 4 }, (_, i) => `blocks.${i}`);
          assert.deepEqual(modules('allGather'), ['', ...blocks, ...blocks.toReversed()]);
          assert.deepEqual(modules('reduceScatter'), [...blocks.toReversed(), '']);
        }
      });
    }
  });
}

function numTrained(config: TrainConfig): number {
  return buildModel(config)
    .parameters()
    .filter(({ requiresGrad }) => requiresGrad).length;
}

function withNaiveTwins(cases: ReadonlyMap<string, TrainConfigInput>): Map<string, PlacedCase> {
  return new Map(
    [...cases].flatMap(([name, config]): [string, PlacedCase][] => {
      const naive = NAIVE_TWINS[name];
      const real: [string, PlacedCase] = [name, { config }];
      return naive === undefined ? [real] : [real, [`${name}, as the naive ${naive}`, { config, naive }]];
    }),
  );
}

async function observe(
  world: number,
  cases: ReadonlyMap<string, PlacedCase>,
): Promise<Map<string, Observed>> {
  const byRank = await observeContract(world, [...cases.values()]);
  return new Map(
    [...cases].map(([name, one], i) => {
      const config = parseTrainConfig(one.config);
      const results = byRank.flatMap((all) => all[i] ?? []);
      return [name, { config, naive: one.naive, prediction: predictRun(config, world), byRank: results }];
    }),
  );
}

function table(states: RunPrediction['states']): Partial<Record<CountedCause, number>> {
  const bytes = new Map(states.map((state) => [state.cause as string, state.bytes]));
  return Object.fromEntries(STATES.map((cause) => [cause, bytes.get(cause) ?? 0]));
}

function requireBytes(
  actual: Readonly<Record<CountedCause, number>>,
  expected: Partial<Record<CountedCause, number>>,
  where: string,
): void {
  const seen = Object.fromEntries(
    Object.keys(expected).map((cause) => [cause, actual[cause as CountedCause]]),
  ); // its keys
  assert.deepEqual(seen, expected, where);
}

/** Sums of fractions of bytes: exact except for the formula's own division. */
function requireClose(actual: number, expected: number, what: string): void {
  assert.ok(Math.abs(actual - expected) < 1e-6, `${what}: ${actual} B, the formula has ${expected} B`);
}

function received({ collectives }: ContractResult, cause: CommCause): number {
  return collectives
    .filter((event) => event.cause === cause)
    .reduce((total, event) => total + event.wireBytes, 0);
}

/** One element is one rank's part: that rank receives it from all others, and each of them receives the sum from it. */
function scalarBytes(rank: number, world: number): number {
  return 4 * (rank === world - 1 ? world - 1 : 1);
}

function spell(terms: Partial<Record<string, number>>): string {
  const present = Object.entries(terms).filter(([, bytes]) => bytes !== 0);
  const parts = present.map(([name, bytes]) => `${name === '' ? 'root' : name} ${bytes} B`);
  return `${parts.join(' + ')} = ${present.reduce((sum, [, bytes = 0]) => sum + bytes, 0)} B`;
}
