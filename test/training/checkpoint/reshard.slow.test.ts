import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { SaveOptions } from '../../../src/training/checkpoint/save/save-plan';
import { valuesHere } from '../../support/cases';
import type { Action } from './checkpoint-rank';
import { resultOf, runActions, tinyConfig } from './runs';
import { type Arrays, differences, readCheckpoint, readDump } from './state-files';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-reshard-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Elements of one checksum: few, so that most arrays have several checksums. */
const BLOCK = 8;

type Placement = readonly [world: number, strategy: StrategyName];
const FULL: SaveOptions = { type: 'FULL_STATE_DICT', maxShardBytes: 6000 };

const SAVES: Readonly<Record<string, readonly [...Placement, SaveOptions]>> = {
  A: [4, 'FULL_SHARD', {}],
  B: [4, 'HYBRID_SHARD', {}],
  C: [4, 'ZERO_1', FULL],
  D: [3, 'ZERO_2', {}],
  E: [2, 'SHARD_GRAD_OP', FULL],
  F: [1, 'NO_SHARD', {}],
};

const ALL_PAIRS: readonly (readonly [save: string, ...Placement])[] = [
  ['A', 3, 'NO_SHARD'],
  ['A', 2, 'ZERO_2'],
  ['A', 2, 'SHARD_GRAD_OP'],
  ['A', 1, 'NO_SHARD'],
  ['B', 3, 'FULL_SHARD'],
  ['B', 2, 'ZERO_1'],
  ['C', 2, 'NO_SHARD'],
  ['D', 4, 'FULL_SHARD'],
  ['D', 2, 'FULL_SHARD'],
  ['E', 4, 'ZERO_1'],
  ['E', 4, 'HYBRID_SHARD'],
  ['F', 4, 'SHARD_GRAD_OP'],
];

const PAIRS = valuesHere(ALL_PAIRS, [1, 3, 4, 6, 7, 10, 11]);

/** Worlds in the order of their launches: a world loads what an earlier one saved. */
const LAUNCHES = [4, 3, 2, 1, 4] as const;

function configOf(strategy: StrategyName, more: TrainConfigInput = {}): TrainConfigInput {
  const mesh = strategy === 'HYBRID_SHARD' ? { dpReplicate: 2, dpShard: 2 } : null;
  return tinyConfig(strategy, { parallel: { strategy, mesh }, ...more });
}

interface LoadReport {
  readonly bytesRead: number;
  readonly peakBytes: number;
  readonly steps: number;
}

test(`every parameter and moment is bit-equal after a load, for ${PAIRS.length} pairs of (world, strategy)`, async () => {
  const done = new Set<string>();
  const reports = new Map<string, readonly LoadReport[]>();
  for (const world of LAUNCHES) {
    const saves = Object.entries(SAVES).filter(([name, [of]]) => of === world && !done.has(name));
    const loads = PAIRS.filter(([save, of]) => of === world && done.has(save));
    const actions = [
      ...saves.flatMap(([name, [, strategy, options]]): Action[] => [
        { do: 'train', config: configOf(strategy), steps: 2 },
        { do: 'dump', folder: join(folder, `dump-${name}`) },
        { do: 'save', folder: join(folder, name), options },
      ]),
      ...loads.flatMap(([save, , strategy]): Action[] => [
        { do: 'train', config: configOf(strategy, { seed: 9 }), steps: 1 },
        { do: 'load', folder: join(folder, save) },
        { do: 'dump', folder: join(folder, `dump-${save}-${world}-${strategy}`) },
      ]),
    ];
    const byRank = await runActions(world, actions, { blockElements: BLOCK });
    for (const results of byRank) for (const result of results) resultOf(result);
    for (const [name] of saves) done.add(name);
    loads.forEach(([save, , strategy], i) => {
      const at = 3 * (saves.length + i) + 1;
      // checkpoint-rank reports loads in this form.
      const ofRanks = byRank.map((results) => resultOf(results[at]) as LoadReport);
      reports.set(`${save}-${world}-${strategy}`, ofRanks);
    });
  }
  assert.equal(reports.size, PAIRS.length);
  const saved = new Map<string, Arrays>();
  for (const [name, [world]] of Object.entries(SAVES)) {
    const dump = readDump(join(folder, `dump-${name}`), world);
    assert.deepEqual(differences(readCheckpoint(join(folder, name)), dump), [], name);
    saved.set(name, dump);
  }
  for (const [save, world, strategy] of PAIRS) {
    const key = `${save}-${world}-${strategy}`;
    const loaded = readDump(join(folder, `dump-${key}`), world);
    assert.deepEqual(differences(loaded, saved.get(save) ?? new Map()), [], key);
  }
  checkStreaming(reports);
});

/** Ranks of FULL_SHARD read their share and the rest of its blocks, one block at a time. */
function checkStreaming(reports: ReadonlyMap<string, readonly LoadReport[]>): void {
  const whole = [...readCheckpoint(join(folder, 'D')).values()].reduce(
    (sum, values) => sum + values.byteLength,
    0,
  );
  for (const { bytesRead, peakBytes, steps } of reports.get('D-4-FULL_SHARD') ?? []) {
    assert.equal(steps, 2);
    assert.equal(peakBytes, 4 * BLOCK);
    assert.ok(bytesRead < 0.4 * whole, `a rank of four read ${bytesRead} of ${whole} bytes`);
  }
}
