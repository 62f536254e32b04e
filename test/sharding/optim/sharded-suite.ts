import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { casesHere } from '../../support/cases';
import { launchRanks } from '../../support/launch-ranks';
import type { Apart, Twins } from './sharded-rank';

/** No dimension is divisible by 3: shards have padding in that world. */
const MODEL = { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 257, seq: 16 } as const;
/** Its larger parameters, whole and in shards over 3 ranks, are above the size from which moments are in 8 bits. */
const LARGER = { ...MODEL, dim: 64 } as const;
const STEPS = 3;

interface Case {
  readonly settings: TrainConfigInput;
  readonly strategies: readonly StrategyName[];
  /** Largest ‖a − b‖ / ‖b‖ of parameters; the bound of states is ten times as large. */
  readonly bound: number;
  /** Largest relative difference of losses. Default 1e-6. */
  readonly lossBound?: number;
}

const ALL = ['FULL_SHARD', 'SHARD_GRAD_OP', 'ZERO_1', 'ZERO_2'] as const;
const TWO = ['FULL_SHARD', 'ZERO_1'] as const;

const IN_GROUPS: TrainConfigInput = {
  optimizer: {
    weightDecay: 0.5,
    groups: [
      { modules: 'LayerNorm', parameters: 'bias', weightDecay: 0, lr: 1e-2 },
      { modules: 'blocks.*.fc1', betas: [0.8, 0.9], eps: 1e-5 },
    ],
  },
};

/**
 * AdamW divides by the root of the second moment, which amplifies noise of gradients near zero. Sharded 8-bit moments are in other
 * blocks than whole ones: their codes differ by up to a step, 0.007 of a block's largest value.
 */
const OPTIMIZERS: Readonly<Record<string, Case>> = {
  AdamW: { settings: {}, strategies: ALL, bound: 1e-5 },
  'a delayed AdamW': { settings: { optimizer: { delayedUpdate: true } }, strategies: TWO, bound: 1e-5 },
  SGD: { settings: { optimizer: { kind: 'sgd', lr: 0.1 } }, strategies: TWO, bound: 1e-6 },
  'SGD with Nesterov momentum': {
    settings: { optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9, nesterov: true } },
    strategies: TWO,
    bound: 1e-6,
  },
  'Adam with amsgrad': {
    settings: { optimizer: { kind: 'adam', amsgrad: true, weightDecay: 0.1 } },
    strategies: TWO,
    bound: 1e-5,
  },
  'Lion in groups': {
    // The sign of a moment near 0 depends on noise: an element may move by 2 lr more or less in each step.
    settings: {
      optimizer: { kind: 'lion', lr: 1e-5, groups: [{ modules: 'LayerNorm', parameters: 'bias', lr: 1e-6 }] },
    },
    strategies: TWO,
    bound: 1e-5,
  },
  'AdamW in groups': { settings: IN_GROUPS, strategies: ALL, bound: 1e-5 },
  'AdamW on the host, in groups': {
    settings: { ...IN_GROUPS, offload: { optimizer: true } },
    strategies: TWO,
    bound: 1e-5,
  },
  'AdamW on the host': { settings: { offload: { optimizer: true } }, strategies: TWO, bound: 1e-5 },
  '8-bit AdamW': {
    settings: { model: LARGER, optimizer: { kind: 'adamW8bit' } },
    strategies: TWO,
    bound: 5e-3,
    lossBound: 1e-3,
  },
};

/** Other placements on 4 ranks: each has its own way to compute the norm. */
const PLACEMENTS: Readonly<Record<string, TrainConfigInput>> = {
  HYBRID_SHARD: { parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } } },
  '_HYBRID_SHARD_ZERO2 with accumulation': {
    accumulation: 2,
    parallel: { strategy: '_HYBRID_SHARD_ZERO2', mesh: { dpReplicate: 2, dpShard: 2 } },
  },
  'HYBRID_SHARD in groups': {
    ...IN_GROUPS,
    parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } },
  },
  'FULL_SHARD in groups': { ...IN_GROUPS, parallel: { strategy: 'FULL_SHARD' } },
  'units of several strategies': {
    parallel: {
      strategy: 'FULL_SHARD',
      unitStrategies: [
        { modules: 'blocks.0', strategy: 'NO_SHARD' },
        { modules: 'blocks.1', strategy: 'ZERO_2' },
      ],
    },
  },
  'frozen tables': { frozen: ['wte', 'wpe'], parallel: { strategy: 'FULL_SHARD' } },
  'parameters on the host': { offload: { parameters: true }, parallel: { strategy: 'FULL_SHARD' } },
};

/** What `npm test` has: each kind of state and of group, and the placements with a norm of their own. */
const OPTIMIZERS_IN_SHORT = [
  'AdamW',
  'a delayed AdamW',
  'SGD with Nesterov momentum',
  'Adam with amsgrad',
  'Lion in groups',
  'AdamW on the host, in groups',
  '8-bit AdamW',
];
const PLACEMENTS_IN_SHORT = [
  '_HYBRID_SHARD_ZERO2 with accumulation',
  'HYBRID_SHARD in groups',
  'units of several strategies',
  'frozen tables',
];

/** Trains with every optimizer on `world` ranks, and requires the steps of whole parameters. */
export function testOptimizers(world: number): void {
  describe(`${world} ranks`, () => {
    const optimizers = casesHere(OPTIMIZERS, OPTIMIZERS_IN_SHORT);
    const cases = Object.entries(optimizers).map(([name, { settings, strategies, ...bounds }]) => ({
      names: strategies.map(
        (strategy) => `${name} under ${strategy} takes the steps of whole parameters, clipped`,
      ),
      twins: twinsOf(strategies.map((strategy) => ({ ...settings, parallel: { strategy } }))),
      ...bounds,
    }));
    testTwins(world, cases);
  });
}

/** Trains under the other placements on 4 ranks, and requires the steps of whole parameters. */
export function testPlacements(): void {
  describe('4 ranks', () => {
    const placements = casesHere(PLACEMENTS, PLACEMENTS_IN_SHORT);
    const cases = Object.entries(placements).map(([name, settings]) => ({
      names: [`AdamW with ${name} takes the steps of whole parameters, clipped`],
      twins: twinsOf([settings]),
      bound: 1e-5,
    }));
    testTwins(4, cases);
  });
}

interface TwinsCase extends Pick<Case, 'bound' | 'lossBound'> {
  /** One per config. */
  readonly names: readonly string[];
  readonly twins: Twins;
}

function testTwins(world: number, cases: readonly TwinsCase[]): void {
  const observed = launchRanks<Apart[]>({
    script: join(__dirname, 'sharded-rank.js'),
    world,
    args: { blas: 'none', steps: STEPS, twins: cases.map(({ twins }) => twins) },
  });
  observed.catch(() => undefined); // each test that awaits it reports its failure
  const named = cases.flatMap(({ names, ...bounds }) => names.map((name) => ({ name, ...bounds })));
  named.forEach(({ name, bound, lossBound = 1e-6 }, i) => {
    test(name, async (t) => {
      const byRank = (await observed).map((results) => results[i] as Apart);
      for (const apart of byRank) {
        t.diagnostic(`parameters ${apart.values} apart, states ${JSON.stringify(apart.states)}`);
        assert.ok(apart.values <= bound, `parameters are ${apart.values} apart`);
        for (const [state, value] of Object.entries(apart.states)) {
          assert.ok(value <= 10 * bound, `${state} is ${value} apart`);
        }
        close(apart.losses, apart.twinLosses, lossBound);
        close(apart.gradNorms, apart.twinGradNorms, 10 * lossBound);
        assert.deepEqual(apart.gradNorms, byRank[0]?.gradNorms, 'all ranks have one norm');
      }
    });
  });
}

/** Settings that differ only in their placement, and their twin of whole parameters on the device. */
function twinsOf(settings: readonly TrainConfigInput[]): Twins {
  // The norm is above the limit: each step clips.
  const common = { model: MODEL, data: 'synthetic', batch: 2, clipNorm: 0.1 } as const;
  const configs = settings.map((each) => ({ ...common, ...each }));
  const { offload: _, ...onDevice } = { ...common, ...settings[0] };
  return { configs, twin: { ...onDevice, parallel: { strategy: 'NO_SHARD' } } };
}

function close(actual: readonly number[], expected: readonly number[], bound: number): void {
  actual.forEach((value, i) => {
    const other = expected[i] ?? Number.NaN;
    assert.ok(
      Math.abs(value - other) <= bound * Math.abs(other),
      `step ${i + 1}: ${value}, expected ${other}`,
    );
  });
}
