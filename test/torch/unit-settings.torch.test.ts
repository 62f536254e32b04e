import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { Job } from '../../src/session/run/job';
import { BASE, compareSettings, LOSS_BOUND, type SettingsCase } from './compare-settings';
import { largestDifference, MOE } from './torch-fixture';

type Parallel = TrainConfigInput['parallel'];

const shared = (parallel: Parallel, settings: TrainConfigInput = {}): TrainConfigInput => ({
  ...BASE,
  ...settings,
  parallel,
});

/** Experts that are not freed after forward, and gates that every rank has whole. */
const EXPERTS = shared(
  {
    unitStrategies: [
      { modules: 'blocks.*.moe.experts.*', strategy: 'SHARD_GRAD_OP' },
      { modules: 'blocks.*.moe.gate', strategy: 'NO_SHARD' },
    ],
  },
  { model: MOE, clipNorm: 0.5 },
);
const REPLICATED = shared(
  { strategy: 'NO_SHARD', unitStrategies: [{ modules: 'blocks.0', strategy: 'FULL_SHARD' }] },
  { accumulation: 2 },
);
const OUTSIDE = ['blocks.0.ln1', 'blocks.1.fc2'];
// With clipping, each rank would scale by its own norm, as the gradients of ignored modules differ between ranks.
const IGNORED = shared({ ignoredModules: OUTSIDE }, { clipNorm: null });

const PLACED = shared(
  {
    ep: 2,
    expertPlacement: {
      'blocks.0.moe': {
        experts: [
          [3, 0],
          [1, 2],
        ],
      },
    },
  },
  { model: MOE },
);

/** SGD does not make the rounding of small gradients larger. */
const OF_REPLICATED = shared(
  { strategy: 'NO_SHARD', ignoredModules: OUTSIDE },
  { clipNorm: null, optimizer: { kind: 'sgd', lr: 0.05 } },
);

/** Returns a case for each of PyTorch's two FSDPs. */
function both(name: string, config: TrainConfigInput): SettingsCase[] {
  return [
    { name: `${name}, FSDP2`, config },
    { name: `${name}, FSDP1`, config, framework: 'fsdp1' },
  ];
}

async function unitsOf(
  job: Job | undefined,
  config: TrainConfigInput,
  framework?: 'fsdp1',
): Promise<unknown> {
  const run = await job?.train(config, framework === undefined ? {} : { framework });
  assert.ok(run !== undefined);
  const { rows } = await run.units();
  await run.dispose();
  const facts = rows.map(({ module, strategy, numParams, numShards }) => [
    module,
    strategy,
    numParams,
    numShards,
  ]);
  return facts.sort();
}

compareSettings(
  'a strategy per unit has the same losses, gradients and parameters on PyTorch',
  [
    ...both('experts and gates', EXPERTS),
    ...both('a sharded block in a replicated model', REPLICATED),
    ...both('ignored modules', IGNORED),
    ...both('ignored modules of a replicated model', OF_REPLICATED),
    {
      name: 'experts of EP 2',
      config: shared(
        { ep: 2, unitStrategies: [{ modules: 'blocks.*.moe.experts.*', strategy: 'NO_SHARD' }] },
        { model: MOE },
      ),
    },
    { name: 'experts that are placed by hand', config: PLACED },
    {
      name: 'PP 2',
      config: shared({
        ...{ pp: 2, ignoredModules: ['blocks.0.ln1'] },
        unitStrategies: [{ modules: 'blocks.1', strategy: 'SHARD_GRAD_OP' }],
      }),
    },
  ],
  (jobs) => {
    it('the table of units is the same', async () => {
      const [here, there] = jobs;
      for (const config of [EXPERTS, REPLICATED, IGNORED]) {
        const expected = await unitsOf(here, config);
        assert.deepEqual(await unitsOf(there, config), expected);
        assert.deepEqual(await unitsOf(there, config, 'fsdp1'), expected);
      }
    });

    it('experts move to other ranks between two steps', async () => {
      const [here, there] = jobs;
      const expected = await here?.train(PLACED);
      const run = await there?.train(shared({ ep: 2 }, { model: MOE }));
      assert.ok(expected !== undefined && run !== undefined);
      await expected.step(4);
      await run.step(2);
      await run.reshard({ expertPlacement: PLACED.parallel?.expertPlacement ?? null });
      await run.step(2);
      const difference = largestDifference(run.losses, expected.losses);
      assert.ok(difference <= LOSS_BOUND, `${run.losses}; ${expected.losses}`);
    });

    it('names that the model lacks, and modules that cannot stand alone, are refused', async () => {
      const refused = async (modules: string, message: RegExp): Promise<void> => {
        const config = shared({ unitStrategies: [{ modules, strategy: 'NO_SHARD' }] });
        await assert.rejects(async () => jobs[1]?.train(config), { code: 'CONFIG', message });
      };
      await refused('bloks.1', /no module of the model is named "bloks\.1"; did you mean "blocks\.1"\?/);
      await refused(
        'wte',
        /"wte" cannot be a separate unit, because the model itself also reads wte\.weight/,
      );
      await refused('blocks', /blocks is a list without a forward, so PyTorch cannot gather it alone/);
    });
  },
);
