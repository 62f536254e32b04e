import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { ParallelConfig, StrategyName } from '../../src/config/parallel-config';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { CommCause } from '../../src/core/events';
import { launchRanks } from '../support/launch-ranks';
import type { ContractResult, CountedCause } from './contract-rank';

const DIM = 32;
const LAYERS = 4;
const MODEL = { kind: 'gpt', layers: LAYERS, dim: DIM, heads: 4, vocab: 256, seq: 16 } as const;

/** Elements of a block: two norms, and four products with their biases. */
const BLOCK = 2 * 2 * DIM + 12 * DIM * DIM + 9 * DIM;
/** Elements of the root unit: token and position tables, the last norm. */
const ROOT = MODEL.vocab * DIM + MODEL.seq * DIM + 2 * DIM;
const WHOLE = ROOT + LAYERS * BLOCK;

type Settings = Partial<ParallelConfig> & { readonly strategy: StrategyName };

const CASES = {
  NO_SHARD: { strategy: 'NO_SHARD' },
  SHARD_GRAD_OP: { strategy: 'SHARD_GRAD_OP' },
  FULL_SHARD: { strategy: 'FULL_SHARD' },
  'FULL_SHARD without prefetch': { strategy: 'FULL_SHARD', forwardPrefetch: false, backwardPrefetch: null },
  'FULL_SHARD, prefetch forward only': { strategy: 'FULL_SHARD', backwardPrefetch: null },
  'FULL_SHARD, prefetch after backward': {
    strategy: 'FULL_SHARD',
    forwardPrefetch: false,
    backwardPrefetch: 'BACKWARD_POST',
  },
  'FULL_SHARD, root only': { strategy: 'FULL_SHARD', wrap: 'root' },
} as const satisfies Record<string, Settings>;
type CaseName = keyof typeof CASES;
const NAMES = Object.keys(CASES) as CaseName[]; // its own keys

for (const world of [2, 4]) {
  describe(`${world} ranks`, () => {
    const observed = observe(world);
    observed.catch(() => undefined); // each test that awaits it reports its failure

    const each = (
      what: string,
      check: (name: CaseName, result: ContractResult, t: TestContext) => void,
    ): void => {
      for (const name of NAMES) {
        test(`${name}: ${what}`, async (t) => {
          const byRank = (await observed)[name];
          assert.equal(byRank.length, world);
          for (const result of byRank) check(name, result, t);
        });
      }
    };

    each(
      'parameters, gradients and optimizer states at rest are 1/N of the whole, or the whole',
      (name, result, t) => {
        assert.equal(result.numParams, WHOLE);
        assert.equal(result.padding, 0, 'all first axes of this model are multiples of the number of ranks');
        const isSharded = CASES[name].strategy !== 'NO_SHARD';
        const own = 4 * (isSharded ? WHOLE / world : WHOLE);
        const expected: Partial<Record<CountedCause, number>> = isSharded
          ? { 'param.shard': own, 'grad.shard': own, 'param.full': 0, 'grad.full': 0, optimizer: 2 * own }
          : { 'param.full': own, 'grad.full': own, 'param.shard': 0, 'grad.shard': 0, optimizer: 2 * own };
        requireBytes(result.atRest, { ...expected, batch: 0, comm: 0 });
        t.diagnostic(`${own} B of parameters, ${own} B of gradients, ${2 * own} B of moments, padding 0 B`);
      },
    );

    each(
      'whole parameters and gradients at their peak are the units that the schedule says',
      (name, result, t) => {
        const terms = PEAKS[name];
        requireBytes(
          { 'param.full': result.peaks['param.full'].bytes, 'grad.full': result.peaks['grad.full'].bytes },
          { 'param.full': 4 * sum(terms.param), 'grad.full': 4 * sum(terms.grad) },
        );
        requireBytes(result.afterForward, { 'param.full': 4 * sum(terms.paramAfterForward) });
        t.diagnostic(
          `param.full at its peak: ${spell(terms.param)}; after forward: ${spell(terms.paramAfterForward)}`,
        );
        t.diagnostic(`grad.full at its peak: ${spell(terms.grad)}`);
      },
    );

    each('bytes on the wire are what the strategy needs, and scalars are apart', (name, result, t) => {
      const terms = WIRE[name];
      const share = (4 * (world - 1)) / world;
      assert.equal(wireBytes(result, 'param'), share * sum(terms.param), 'parameters');
      assert.equal(wireBytes(result, 'grad'), share * sum(terms.grad), 'gradients');
      // One element is one rank's part: that rank receives it from all others, each of those the sum from it.
      const scalar = 4 * (result.rank === world - 1 ? world - 1 : 1);
      const isSharded = CASES[name].strategy !== 'NO_SHARD';
      assert.equal(wireBytes(result, 'loss'), scalar);
      assert.equal(wireBytes(result, 'norm'), isSharded ? scalar : 0);
      t.diagnostic(`(N-1)/N of: parameters ${spell(terms.param)}; gradients ${spell(terms.grad)}`);
    });

    each('memory is accounted for to the byte, does not grow, and is given back', (_name, result) => {
      assert.equal(result.observedBytes, result.engineBytes);
      assert.equal(result.growth, 0);
      assert.equal(result.left, 0);
    });

    test('FULL_SHARD on 4 blocks: 5 gathers forward, 4 backward since the root stays, 5 reductions', async () => {
      for (const { collectives } of (await observed).FULL_SHARD) {
        const modules = (op: string): string[] =>
          collectives.filter((event) => event.op === op).map(({ module }) => module);
        const blocks = Array.from({ length: LAYERS }, (_, i) => `blocks.${i}`);
        assert.deepEqual(modules('allGather'), ['', ...blocks, ...blocks.toReversed()]);
        assert.deepEqual(modules('reduceScatter'), [...blocks.toReversed(), '']);
      }
    });

    test('prefetch changes when parameters are gathered, not how often', async () => {
      const counts = (name: CaseName, all: Observed): number[] =>
        all[name].map(({ collectives }) => collectives.length);
      const all = await observed;
      for (const name of NAMES.filter(
        (other) => other.startsWith('FULL_SHARD') && !other.endsWith('root only'),
      )) {
        assert.deepEqual(counts(name, all), counts('FULL_SHARD', all));
      }
    });
  });
}

type Terms = Readonly<Record<string, number>>;

const UNITS = { root: ROOT, block: BLOCK, 'next block': BLOCK } as const;
const ALL = { root: ROOT, 'all blocks': LAYERS * BLOCK } as const;
const ROOT_AND_BLOCK = { root: ROOT, block: BLOCK } as const;
/** A block is larger than this model's root, so two blocks in a row are the most. */
const AWAITING = { 'block, just computed': BLOCK, 'block in flight': BLOCK } as const;
const ROOT_ONLY = { root: ROOT } as const;

interface PeakTerms {
  readonly param: Terms;
  readonly paramAfterForward: Terms;
  readonly grad: Terms;
}

const PEAKS: Record<CaseName, PeakTerms> = {
  NO_SHARD: { param: ALL, paramAfterForward: ALL, grad: ALL },
  SHARD_GRAD_OP: { param: ALL, paramAfterForward: ALL, grad: AWAITING },
  FULL_SHARD: { param: UNITS, paramAfterForward: ROOT_ONLY, grad: AWAITING },
  'FULL_SHARD without prefetch': { param: ROOT_AND_BLOCK, paramAfterForward: ROOT_ONLY, grad: AWAITING },
  'FULL_SHARD, prefetch forward only': { param: UNITS, paramAfterForward: ROOT_ONLY, grad: AWAITING },
  'FULL_SHARD, prefetch after backward': {
    param: ROOT_AND_BLOCK,
    paramAfterForward: ROOT_ONLY,
    grad: AWAITING,
  },
  'FULL_SHARD, root only': { param: ALL, paramAfterForward: ALL, grad: ALL },
};

/** Elements of which (N-1)/N go over the wire. */
interface WireTerms {
  readonly param: Terms;
  readonly grad: Terms;
}

const FULL_SHARD_WIRE: WireTerms = {
  param: { 'forward, all': WHOLE, 'backward, all but the root': WHOLE - ROOT },
  grad: { 'reduce-scatter': WHOLE },
};

const WIRE: Record<CaseName, WireTerms> = {
  NO_SHARD: { param: {}, grad: { 'reduce-scatter half': WHOLE, 'all-gather half': WHOLE } },
  SHARD_GRAD_OP: { param: { 'forward, all': WHOLE }, grad: { 'reduce-scatter': WHOLE } },
  FULL_SHARD: FULL_SHARD_WIRE,
  'FULL_SHARD without prefetch': FULL_SHARD_WIRE,
  'FULL_SHARD, prefetch forward only': FULL_SHARD_WIRE,
  'FULL_SHARD, prefetch after backward': FULL_SHARD_WIRE,
  'FULL_SHARD, root only': { param: { 'forward, all': WHOLE }, grad: { 'reduce-scatter': WHOLE } },
};

type Observed = Record<CaseName, ContractResult[]>;

async function observe(world: number): Promise<Observed> {
  const configs = NAMES.map((name): TrainConfigInput => {
    return { model: MODEL, data: 'synthetic', batch: 2, parallel: CASES[name] };
  });
  const script = join(__dirname, 'contract-rank.js');
  const byRank = await launchRanks<ContractResult[]>({ script, world, args: { blas: 'none', configs } });
  const of = (i: number): ContractResult[] => byRank.flatMap((results) => results[i] ?? []);
  return Object.fromEntries(NAMES.map((name, i) => [name, of(i)])) as Observed; // an entry a name
}

function requireBytes(
  actual: Partial<Record<string, number>>,
  expected: Partial<Record<string, number>>,
): void {
  for (const [cause, bytes] of Object.entries(expected)) assert.equal(actual[cause], bytes, cause);
}

function wireBytes({ collectives }: ContractResult, cause: CommCause): number {
  return collectives
    .filter((event) => event.cause === cause)
    .reduce((total, event) => total + event.wireBytes, 0);
}

function sum(terms: Terms): number {
  return Object.values(terms).reduce((total, term) => total + term, 0);
}

function spell(terms: Terms): string {
  const parts = Object.entries(terms).map(([name, elements]) => `${name} ${4 * elements} B`);
  return `${parts.join(' + ')} = ${4 * sum(terms)} B`;
}
