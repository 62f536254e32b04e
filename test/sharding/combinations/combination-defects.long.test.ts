import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { whyNoBlas } from '../../support/blas-search';
import { compareStates, RELATIVE_BOUND } from '../parity/compare-states';
import type { ParityRun } from '../parity/parity-rank';
import { finishRuns, temporaryFolder } from '../parity/parity-runs';
import { readStep } from '../parity/state-dump';
import type { CombinationDefect } from './combination-defects';
import { aloneOf, runOf, STEPS } from './combination-runs';
import { COMBINATIONS, type CombinationName } from './combinations';

const SWAPPED_FC1 = { kind: 'swappedRows', parameter: 'blocks.0.fc1.weight' } as const;
const SWAPPED_EXPERTS = {
  kind: 'swappedModules',
  modules: ['blocks.0.moe.experts.0', 'blocks.0.moe.experts.3'],
} as const;
const SKIPPED = { kind: 'skippedMicrobatch' } as const;

/** A wrong reduction, a skipped microbatch and a swapped shard of each parallelism. */
const DEFECTS: readonly (readonly [CombinationName, readonly CombinationDefect[]])[] = [
  ['tensors over 2, DDP, accumulation', [{ kind: 'wrongReduction', axis: 'tp' }, SKIPPED, SWAPPED_FC1]],
  [
    'tensors and sequence over 2, full recompute',
    [{ kind: 'wrongReduction', axis: 'tp' }, SKIPPED, SWAPPED_FC1],
  ],
  [
    'heads exchanged by 2, FULL_SHARD, everything offloaded',
    [{ kind: 'wrongReduction', axis: 'dp_cp' }, SKIPPED, { kind: 'swappedParts' }],
  ],
  [
    'a ring of 2, ZERO_1, accumulation',
    [{ kind: 'wrongReduction', axis: 'dp_cp' }, SKIPPED, { kind: 'swappedParts' }],
  ],
  [
    '6 experts divided over 2, ZERO_2, accumulation',
    [{ kind: 'wrongReduction', axis: 'dp_cp' }, SKIPPED, SWAPPED_EXPERTS],
  ],
  [
    '6 experts divided over 2, FULL_SHARD over 4, offloaded parameters',
    [{ kind: 'wrongReduction', axis: 'edp' }],
  ],
  ['6 whole experts, tensors and sequence over 2, balanced', [{ kind: 'wrongReduction', axis: 'tp' }]],
  ['6 experts per layer, a ring of 2, FULL_SHARD, balanced', [{ kind: 'wrongReduction', axis: 'dp_cp' }]],
  [
    '6 experts divided over 2, heads exchanged by 2, ZERO_2 over 4',
    [{ kind: 'wrongReduction', axis: 'edp' }],
  ],
  ...(
    [
      ['5 layers on 2 stages, GPipe', 'pp'],
      ['5 layers on 2 stages, 1F1B, full recompute, accumulation', 'pp'],
      ['6 experts per layer, 5 layers on 2 stages, balanced by bias', 'pp'],
      // The first and the last of 3 stages share the embedding.
      ['5 layers on 3 stages, zero bubble', 'tied'],
      ['2 x 2 interleaved stages, ZERO_1 over 2', 'pp'],
    ] as const
  ).map(([name, axis]): [CombinationName, CombinationDefect[]] => [
    name,
    [
      { kind: 'wrongReduction', axis },
      { kind: 'lostMicrobatch' },
      { kind: 'swappedModules', modules: ['blocks.0', 'blocks.4'] },
    ],
  ]),
];

describe('the comparison with one process finds defects', { skip: whyNoBlas() }, () => {
  const folder = temporaryFolder();
  const alone = new Map<CombinationName, ParityRun>();
  const runs = new Map<string, ParityRun>();

  const runsOn = (world: number): ParityRun[] =>
    DEFECTS.filter(([name]) => COMBINATIONS[name].world === world)
      .flatMap(([name, defects]) => [titleOf(name), ...defects.map((defect) => titleOf(name, defect))])
      .flatMap((title) => runs.get(title) ?? []);

  before(async () => {
    for (const [name, defects] of DEFECTS) {
      alone.set(name, aloneOf(name, folder.path));
      runs.set(titleOf(name), runOf(name, folder.path));
      for (const defect of defects) {
        const title = titleOf(name, defect);
        runs.set(title, { ...runOf(name, folder.path, title), defect });
      }
    }
    await finishRuns(1, 'auto', [...alone.values()]);
    for (const world of [2, 3, 4]) await finishRuns(world, 'auto', runsOn(world));
  });
  after(() => folder.remove());

  /** The largest difference of gradients or parameters. Throws if copies differ. */
  const difference = (name: CombinationName, run: ParityRun | undefined): number => {
    const expected = alone.get(name);
    assert.ok(run && expected);
    const found = Array.from({ length: STEPS }, (_, step) => {
      const { relative } = compareStates(
        readStep(run.folder, COMBINATIONS[name].world, step),
        readStep(expected.folder, 1, step),
      );
      return Math.max(relative.grad.value, relative.values.value);
    });
    return found.some(Number.isNaN) ? Number.NaN : Math.max(...found);
  };

  for (const [name, defects] of DEFECTS) {
    test(`no defect is found in: ${name}`, () => {
      assert.ok(difference(name, runs.get(titleOf(name))) <= RELATIVE_BOUND);
    });
    for (const defect of defects) {
      test(`${defect.kind} is found in: ${name}`, () => {
        assert.throws(() => {
          assert.ok(difference(name, runs.get(titleOf(name, defect))) <= 100 * RELATIVE_BOUND);
        });
      });
    }
  }
});

function titleOf(name: CombinationName, defect?: CombinationDefect): string {
  return defect === undefined ? name : `${name}, ${defect.kind}`;
}
