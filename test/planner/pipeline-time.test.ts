import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { pipelineTime } from '../../src/planner/time/predict-time';

interface Stage {
  readonly forward: number;
  readonly backward: number;
}

/** The order in which a stage of a 1F1B pipeline computes microbatches: warm-up forwards, pairs, the remaining backwards. */
function order(place: number, numStages: number, m: number): readonly ('forward' | 'backward')[] {
  const ahead = Math.min(m, numStages - place - 1);
  const pairs = Array.from({ length: m - ahead }, () => ['forward', 'backward'] as const).flat();
  return [...Array(ahead).fill('forward'), ...pairs, ...Array(ahead).fill('backward')];
}

/** Event by event: a pass begins when its stage is free and its input has arrived. */
function simulated(stages: readonly Stage[], m: number, all: typeof order): number {
  const last = stages.length - 1;
  const done = { forward: stages.map((): number[] => []), backward: stages.map((): number[] => []) };
  const free = stages.map(() => 0);
  const queues = stages.map((_, place) => [...all(place, stages.length, m)]);
  for (let moved = true; moved; ) {
    moved = false;
    stages.forEach((stage, place) => {
      const pass = queues[place]?.[0];
      if (pass === undefined) return;
      const number = done[pass][place]?.length ?? 0;
      const input =
        pass === 'forward'
          ? place === 0
            ? 0
            : done.forward[place - 1]?.[number]
          : place === last
            ? done.forward[place]?.[number]
            : done.backward[place + 1]?.[number];
      if (input === undefined) return;
      const end = Math.max(free[place] ?? 0, input) + stage[pass];
      free[place] = end;
      done[pass][place]?.push(end);
      queues[place]?.shift();
      moved = true;
    });
  }
  return Math.max(...free);
}

const gpipe: typeof order = (_, __, m) => [...Array(m).fill('forward'), ...Array(m).fill('backward')];

test('for equal stages 1F1B and GPipe take (m + p - 1)(f + b), as in an event-by-event simulation', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 24 }), (p, m) => {
      const stages = Array.from({ length: p }, () => ({ forward: 1, backward: 2 }));
      const { seconds } = pipelineTime({ stages, numMicroBatches: m, virtualStages: 1, hop: 0, waits: true });
      assert.equal(seconds, (m + p - 1) * 3);
      assert.equal(simulated(stages, m, order), seconds);
      assert.equal(simulated(stages, m, gpipe), seconds);
    }),
    { seed: 1, numRuns: 60 },
  );
});

test("for unequal stages (embedding, head) the time is 3% below to 15% above the simulation's, from m = 2p", () => {
  const stage = fc.record({
    forward: fc.integer({ min: 10, max: 14 }),
    backward: fc.integer({ min: 20, max: 28 }),
  });
  fc.assert(
    fc.property(
      fc.array(stage, { minLength: 2, maxLength: 8 }),
      fc.integer({ min: 2, max: 6 }),
      (stages, times) => {
        const m = times * stages.length;
        const { seconds } = pipelineTime({
          stages,
          numMicroBatches: m,
          virtualStages: 1,
          hop: 0,
          waits: true,
        });
        const exact = simulated(stages, m, order);
        assert.ok(seconds >= 0.97 * exact, `${seconds} < ${exact}`);
        assert.ok(seconds <= 1.15 * exact, `${seconds} > ${exact}`);
      },
    ),
    { seed: 2, numRuns: 200 },
  );
});

test('virtual stages divide the bubble, and waiting for hand-overs adds two per microbatch and part', () => {
  const stages = Array.from({ length: 4 }, () => ({ forward: 1, backward: 2 }));
  const at = (virtualStages: number, hop = 0) =>
    pipelineTime({ stages, numMicroBatches: 8, virtualStages, hop, waits: true }).seconds;
  assert.equal(at(1), 33);
  assert.equal(at(3), 24 + 9 / 3);
  assert.ok(Math.abs(at(3, 0.01) - at(3) - (2 * 8 * 3 + 2 * 3) * 0.01) < 1e-12);
});
