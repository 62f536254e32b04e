import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { PIPELINE_SCHEDULES, type PipelineScheduleName } from '../../../src/config/settings/pipeline';
import { MOST_ACTIONS_UNSENT } from '../../../src/sharding/pipeline/mail';
import { replay } from '../../../src/sharding/pipeline/replay';
import {
  type Action,
  actionsOf,
  bubbleShare,
  mostInFlight,
  type PipelineSizes,
} from '../../../src/sharding/pipeline/schedules';
import { HAS_ALL_CASES } from '../../support/cases';

const sizesOf = (name: PipelineScheduleName): fc.Arbitrary<PipelineSizes> =>
  fc
    .record({
      numRanks: fc.integer({ min: 1, max: 8 }),
      microbatches: fc.integer({ min: 1, max: 20 }),
      chunks: fc.integer({ min: 1, max: 4 }),
    })
    .map(({ numRanks, microbatches, chunks }) =>
      name === 'interleaved'
        ? { numRanks, numMicrobatches: numRanks * Math.ceil(microbatches / 4), virtualStages: chunks }
        : { numRanks, numMicrobatches: microbatches, virtualStages: 1 },
    );

const allActions = (name: PipelineScheduleName, sizes: PipelineSizes): (readonly Action[])[] =>
  Array.from({ length: sizes.numRanks }, (_, rank) => actionsOf(name, sizes, rank));

/** Forward and both halves of backward take equal time; a chunk is a V-th of its rank's layers. */
const unitTimes =
  ({ virtualStages }: PipelineSizes) =>
  ({ kind }: Action): number =>
    (kind === 'backward' ? 2 : 1) / virtualStages;

for (const name of PIPELINE_SCHEDULES) {
  describe(name, () => {
    const each = (what: string, check: (sizes: PipelineSizes) => void): void =>
      void test(what, () =>
        fc.assert(fc.property(sizesOf(name), check), { seed: 13, numRuns: HAS_ALL_CASES ? 200 : 80 }),
      );

    each('every rank runs each action once', (sizes) => {
      const kinds =
        name === 'zb'
          ? (['forward', 'backwardInput', 'backwardWeight'] as const)
          : (['forward', 'backward'] as const);
      const expected = kinds.length * sizes.numMicrobatches * sizes.virtualStages;
      for (const actions of allActions(name, sizes)) {
        const names = new Set(actions.map((action) => JSON.stringify(action)));
        assert.deepEqual([actions.length, names.size], [expected, expected]);
        assert.ok(actions.every(({ kind }) => (kinds as readonly string[]).includes(kind)));
        assert.ok(
          actions.every(
            ({ microbatch, chunk }) => microbatch < sizes.numMicrobatches && chunk < sizes.virtualStages,
          ),
        );
      }
    });

    each('all ranks reach their end', (sizes) => {
      const { actions } = replay(allActions(name, sizes), { secondsOf: unitTimes(sizes) });
      assert.equal(actions.length, allActions(name, sizes).flat().length);
    });

    each('ranks that hold what they sent for some actions do not wait in a circle', (sizes) => {
      const left = waiting(allActions(name, sizes), sizes);
      assert.equal(left, 0, JSON.stringify(sizes));
    });

    each('activations in flight have the known bound', (sizes) => {
      const { numRanks: P, numMicrobatches: M, virtualStages: V } = sizes;
      allActions(name, sizes).forEach((actions, p) => {
        const bound = {
          gpipe: M,
          '1f1b': Math.min(M, P - p),
          interleaved: Math.min(M * V, 2 * (P - 1 - p) + (V - 1) * P + 1),
          zb: Math.min(M, P),
        }[name];
        assert.equal(mostInFlight(actions), bound);
      });
    });

    each('the bubble has the known form', (sizes) => {
      // With fewer microbatches than ranks, not even the first gradient has returned when the forwards end.
      if (name === 'zb' && sizes.numMicrobatches < sizes.numRanks) return;
      const { bubble } = replay(allActions(name, sizes), { secondsOf: unitTimes(sizes) });
      assert.ok(
        Math.abs(bubble - bubbleShare(name, sizes)) < 1e-9,
        `${bubble} ${bubbleShare(name, sizes)} ${JSON.stringify(sizes)}`,
      );
    });
  });
}

/** Runs actions as `Mail` does, and returns how many can never begin. A message is received when its receiver's action begins. */
function waiting(byRank: readonly (readonly Action[])[], { numRanks, virtualStages }: PipelineSizes): number {
  const last = numRanks * virtualStages - 1;
  const ended = new Set<string>();
  const next = byRank.map(() => 0);
  const keyOf = (kind: string, stage: number, microbatch: number): string =>
    `${kind.replace('Input', '')} ${stage} ${microbatch}`;
  const mayBegin = (rank: number, index: number): boolean => {
    const own = byRank[rank] ?? [];
    const isReceived = ({ kind, chunk, microbatch }: Action): boolean => {
      const stage = chunk * numRanks + rank;
      const [end, to] = kind === 'forward' ? [last, stage + 1] : [0, stage - 1];
      return kind === 'backwardWeight' || stage === end || ended.has(keyOf(kind, to, microbatch));
    };
    const { kind, chunk, microbatch } = own[index] as Action; // it is not yet the last
    const stage = chunk * numRanks + rank;
    const [end, from] = kind === 'forward' ? [0, stage - 1] : [last, stage + 1];
    const hasArrived = kind === 'backwardWeight' || stage === end || ended.has(keyOf(kind, from, microbatch));
    return hasArrived && own.slice(0, Math.max(0, index + 1 - MOST_ACTIONS_UNSENT)).every(isReceived);
  };
  for (let progressed = true; progressed; ) {
    progressed = false;
    byRank.forEach((own, rank) => {
      for (let index = next[rank] ?? 0; index < own.length && mayBegin(rank, index); index++) {
        const { kind, chunk, microbatch } = own[index] as Action; // as above
        ended.add(keyOf(kind, chunk * numRanks + rank, microbatch));
        next[rank] = index + 1;
        progressed = true;
      }
    });
  }
  return byRank.reduce((sum, own, rank) => sum + own.length - (next[rank] ?? 0), 0);
}

test("zb's bubble has the known form for unequal times of forward and the halves of backward", () => {
  const sizes = { numRanks: 4, numMicrobatches: 6, virtualStages: 1 };
  for (const [forward, backwardInput, backwardWeight] of [
    [4, 5, 3],
    [2, 3, 4],
    [5, 2, 2],
  ] as const) {
    const times = { forward, backwardInput, backwardWeight };
    const secondsOf = ({ kind }: Action) => (kind === 'backward' ? Number.NaN : times[kind]);
    const { bubble } = replay(allActions('zb', sizes), { secondsOf });
    assert.ok(Math.abs(bubble - bubbleShare('zb', sizes, times)) < 1e-9, `${bubble}`);
  }
});

const SMALL = { numRanks: 2, numMicrobatches: 3, virtualStages: 1 };

const shown = (actions: readonly Action[]): string =>
  actions
    .map(({ kind, microbatch, chunk }) => {
      const letter = { forward: 'F', backward: 'B', backwardInput: 'I', backwardWeight: 'W' }[kind];
      return `${letter}${microbatch}${chunk === 0 ? '' : `.${chunk}`}`;
    })
    .join(' ');

test('the orders are those of the papers', () => {
  assert.equal(shown(actionsOf('gpipe', SMALL, 0)), 'F0 F1 F2 B0 B1 B2');
  assert.equal(shown(actionsOf('1f1b', SMALL, 0)), 'F0 F1 B0 F2 B1 B2');
  assert.equal(shown(actionsOf('1f1b', SMALL, 1)), 'F0 B0 F1 B1 F2 B2');
  assert.equal(shown(actionsOf('zb', SMALL, 0)), 'F0 F1 I0 W0 F2 I1 W1 I2 W2');
  assert.equal(shown(actionsOf('zb', SMALL, 1)), 'F0 I0 F1 I1 W0 F2 I2 W1 W2');
  const two = { numRanks: 2, numMicrobatches: 2, virtualStages: 2 };
  assert.equal(shown(actionsOf('interleaved', two, 1)), 'F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1');
});

test('ranks that wait for each other are named, with the microbatch and the stage', () => {
  const [first = [], second = []] = allActions('1f1b', SMALL);
  const skips = second.filter(({ microbatch }) => microbatch !== 1);
  assert.throws(() => replay([first, skips], { secondsOf: () => 1 }), {
    code: 'CONFIG',
    message: /rank 0 waits for the gradient of microbatch 1 from stage 1/,
  });
});

test('sizes that a schedule cannot have are refused', () => {
  assert.throws(() => actionsOf('interleaved', { ...SMALL, virtualStages: 2 }, 0), {
    code: 'CONFIG',
    message: /3 microbatches are no whole rounds of 2/,
  });
  assert.throws(() => actionsOf('1f1b', { ...SMALL, virtualStages: 2 }, 0), {
    code: 'CONFIG',
    message: /one stage per rank, not 2; use 'interleaved'/,
  });
  assert.throws(() => actionsOf('gpipe', { ...SMALL, numMicrobatches: 0 }, 0), { code: 'CONFIG' });
});
