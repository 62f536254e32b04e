import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';
import { casesHere, valuesHere } from '../../support/cases';
import { assertClose, relativeDistance } from '../../support/close';
import { launchRanks } from '../../support/launch-ranks';
import { TallyObserver } from '../../support/tally-observer';
import { type ExpertCase, type ExpertResult, peaksOf, ROWS, SHAPE, STEPS } from './experts-rank';

/** Sums of float32 in another order differ by about 1e-7 per operation. */
const BOUND = 1e-5;
const WORLD = 4;

const ALL_CASES: Readonly<Record<string, ExpertCase>> = {
  'temperature, DDP, ep 2': { ep: 2, strategy: 'NO_SHARD', experts: 4 },
  'topk, DDP, ep 4': { ep: 4, strategy: 'NO_SHARD', experts: 8, router: 'topk', auxLossWeight: 0.1 },
  'naive, topk, DDP, ep 4': {
    ep: 4,
    strategy: 'NO_SHARD',
    experts: 8,
    router: 'topk',
    auxLossWeight: 0.1,
    isNaive: true,
  },
  'topk within a capacity, FULL_SHARD, ep 2, recomputed': {
    ep: 2,
    strategy: 'FULL_SHARD',
    experts: 6,
    router: 'topk',
    topK: 3,
    capacityFactor: 0.75,
    auxLossWeight: 0.1,
    isRecomputed: true,
  },
  'switch, ZERO_2, ep 2': { ep: 2, strategy: 'ZERO_2', experts: 4, router: 'switch', capacityFactor: 0.75 },
  'expert choice, FULL_SHARD, ep 4': { ep: 4, strategy: 'FULL_SHARD', experts: 4, router: 'expert-choice' },
  'expert choice, DDP, ep 2': { ep: 2, strategy: 'NO_SHARD', experts: 4, router: 'expert-choice' },
};
/** Experts that are not consecutive. */
const MOVED = {
  experts: [
    [3, 0],
    [1, 2],
  ],
  copies: [],
};
/** Copies of the same expert on all ranks, and of others. */
const COPIED = {
  experts: [
    [5, 0],
    [1, 4],
    [2, 6],
    [7, 3],
  ],
  copies: [
    [6, 1],
    [6, 0],
    [0, 1],
    [6, 0],
  ],
};
const COPIED_BY_TWO = {
  experts: MOVED.experts,
  copies: [
    [2, 1],
    [3, 0],
  ],
};
const ALL_PLACED: Readonly<Record<string, ExpertCase>> = {
  'moved, topk, DDP, ep 2': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    auxLossWeight: 0.1,
    placement: MOVED,
  },
  'moved, temperature, FULL_SHARD, ep 2, recomputed': {
    ep: 2,
    strategy: 'FULL_SHARD',
    experts: 4,
    isRecomputed: true,
    placement: MOVED,
  },
  'copied, switch, ZERO_2, ep 4': {
    ep: 4,
    strategy: 'ZERO_2',
    experts: 8,
    router: 'switch',
    placement: COPIED,
  },
  'copied, expert choice, DDP, ep 4': {
    ep: 4,
    strategy: 'NO_SHARD',
    experts: 8,
    router: 'expert-choice',
    placement: COPIED,
  },
  'copied, topk, FULL_SHARD, ep 2, recomputed': {
    ep: 2,
    strategy: 'FULL_SHARD',
    experts: 4,
    router: 'topk',
    capacityFactor: 0.75,
    isRecomputed: true,
    placement: COPIED_BY_TWO,
  },
  'copied, temperature, DDP, ep 2': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    placement: COPIED_BY_TWO,
  },
};
/** Each router, strategy, number of ranks per expert and kind of placement. */
const CASES = casesHere(ALL_CASES, [
  'naive, topk, DDP, ep 4',
  'topk, DDP, ep 4',
  'topk within a capacity, FULL_SHARD, ep 2, recomputed',
  'switch, ZERO_2, ep 2',
  'expert choice, FULL_SHARD, ep 4',
]);
const PLACED = casesHere(ALL_PLACED, [
  'moved, temperature, FULL_SHARD, ep 2, recomputed',
  'copied, switch, ZERO_2, ep 4',
]);
const FAULTS: Readonly<Record<string, ExpertCase>> = {
  'ranks with the same experts do not average their gradients': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    fault: 'unaveraged',
  },
  'two experts compute the rows of each other': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    placement: MOVED,
    fault: 'swapped',
  },
  'a row is lost': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    placement: MOVED,
    fault: 'lost',
  },
  'a row of the naive form is lost': {
    ep: 4,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    isNaive: true,
    fault: 'lost',
  },
  'the gradients of copies are not added up': {
    ep: 2,
    strategy: 'NO_SHARD',
    experts: 4,
    router: 'topk',
    placement: COPIED_BY_TWO,
    fault: 'unsummed',
  },
};

describe(`expert parallelism on ${WORLD} ranks`, () => {
  let byRank: ExpertResult[][] = [];
  before(async () => {
    const cases = [CASES, PLACED, FAULTS].flatMap((each) => Object.values(each));
    const args = { blas: 'none', cases };
    byRank = await launchRanks({ script: join(__dirname, 'experts-rank.js'), world: WORLD, args });
  });

  Object.entries({ ...CASES, ...PLACED }).forEach(([name, one], i) => {
    const results = (): ExpertResult[] => byRank.flatMap((rank) => rank[i] ?? []);

    test(`${name}: losses, norms, loads and parameters of ${STEPS} steps equal those of one process`, (t) => {
      const alone = results()[0]?.alone;
      assert.ok(alone);
      const means = alone.losses.map((_, step) => mean(results().map(({ losses }) => losses[step] ?? 0)));
      assertClose(means, alone.losses, BOUND, 'losses');
      for (const { norms, leftBytes, leftOut } of results()) {
        assertClose(norms, alone.norms, BOUND, 'norms');
        assert.deepEqual(leftOut, alone.leftOut);
        assert.equal(leftBytes, 0);
      }
      const tokens = alone.load.tokens.map((_, e) => sum(results().map(({ load }) => load.tokens[e] ?? 0)));
      assert.deepEqual(tokens, alone.load.tokens);
      const dropped = alone.load.dropped.map((_, e) =>
        sum(results().map(({ load }) => load.dropped[e] ?? 0)),
      );
      assert.deepEqual(dropped, alone.load.dropped);
      t.diagnostic(
        `distance of parameters ${distanceOf(results()).toExponential(1)}, dropped ${sum(dropped)}`,
      );
      assert.ok(distanceOf(results()) < BOUND);
    });

    if (one.placement === undefined)
      test(`${name}: only rows for other ranks' experts travel, 4 times per layer and step`, () => {
        const own = one.experts / one.ep;
        results().forEach(({ exchanges }, rank) => {
          const ofLayer = exchanges.filter(({ module }) => module === 'blocks.0.moe');
          const perStep = ofLayer.slice(0, ofLayer.length / STEPS);
          const rows = perStep.filter(({ cause }) => cause === 'activation');
          const counts = perStep.filter(({ cause }) => cause === 'control');
          const passes = one.isRecomputed === true ? 2 : 1;
          assert.deepEqual([rows.length, counts.length], [2 * passes + 2, passes]);
          const place = rank % one.ep;
          const group = results().slice(rank - place, rank - place + one.ep);
          const isOwn = (expert: number): boolean => Math.floor(expert / own) === place;
          const ofExperts = (load: ExpertResult['load'], wanted: (expert: number) => boolean): number =>
            sum(load.tokens.filter((_, expert) => wanted(expert)));
          const arriving = sum(group.map(({ load }, peer) => (peer === place ? 0 : ofExperts(load, isOwn))));
          const leaving = ofExperts(
            group[place]?.load ?? { tokens: [], dropped: [] },
            (expert) => !isOwn(expert),
          );
          const elements = sum(rows.map(({ wireBytes }) => wireBytes / 4));
          assert.equal(elements, SHAPE.dim * (passes + 1) * (arriving + leaving));
        });
      });

    // Only with expert choice, all experts take equally many rows, as a dry run assumes.
    if (one.router !== 'expert-choice') return;
    const even = one.experts;
    test(`${name}: the memory of a step by cause equals the dry run's, to the byte`, () => {
      for (const rank of valuesHere([0, 1, 2, 3], [0, 3]))
        assert.deepEqual(results()[rank]?.peaks, dryPeaks(one, rank));
      const [load] = results().map((result) => result.load);
      assert.deepEqual(load?.tokens, new Array(even).fill((ROWS * SHAPE.seq * 2) / even));
    });
  });

  Object.keys(FAULTS).forEach((name, i) => {
    test(`the comparison finds that ${name}`, () => {
      const at = Object.keys({ ...CASES, ...PLACED }).length + i;
      const distance = distanceOf(byRank.flatMap((rank) => rank[at] ?? []));
      assert.ok(distance > 1e-2, String(distance));
    });
  });
});

/** The largest relative distance of a parameter on any rank from that of one process. */
function distanceOf(results: readonly ExpertResult[]): number {
  const { alone } = results[0] ?? {};
  const distances = results.flatMap(({ parameters }) =>
    Object.entries(parameters)
      .filter(([, values]) => values.length > 0)
      .map(([name, values]) => relativeDistance(values, alone?.parameters[name] ?? [])),
  );
  const names = new Set(
    results.flatMap(({ parameters }) =>
      Object.keys(parameters).filter((name) => (parameters[name]?.length ?? 0) > 0),
    ),
  );
  assert.deepEqual([...names].sort(), Object.keys(alone?.parameters ?? {}).sort());
  return Math.max(...distances);
}

/** The peaks of a rank on the meta engine. */
function dryPeaks(one: ExpertCase, rank: number): ReturnType<typeof peaksOf> {
  return withMetaEngine({ blas: false }, (engine) => {
    const tally = new TallyObserver();
    engine.observe(tally);
    const group = joinMetaWorld({ rank, world: WORLD, engine, observer: tally });
    return peaksOf({ engine, group, tally, observer: tally, args: null }, one);
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}
