import {
  dataRanksOf,
  microbatchesOf,
  modelNamed,
  modelShape,
  STRATEGIES,
  strategyWith,
  virtualStagesOf,
} from '../../config';
import { wholeOf, word } from '../../programs';
import {
  both,
  decides,
  type Exported,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  settingBoth,
  type Translation,
  whole,
  wordOf,
} from '../../programs/toolkit';
import { TORCHTITAN_WITHOUT_EFFECT as OTHER } from './torchtitan-keys';

// Keys of TorchTitan's section `parallelism`.

const degreeOf = (other: KeyInput['other'], key: string): number => {
  const degree = Number(other(`parallelism.${key}`) ?? 1);
  return Number.isInteger(degree) && degree > 0 ? degree : 1;
};

/**
 * Returns FSDP's strategy; a degree of -1 stands for all ranks that the other degrees leave. FSDP also shards over the ranks of
 * cp.
 */
function strategy({ other }: KeyInput): Translation {
  const shard = Number(other('parallelism.data_parallel_shard_degree') ?? -1);
  const dpReplicate = degreeOf(other, 'data_parallel_replicate_degree');
  const cp = degreeOf(other, 'context_parallel_degree');
  if (shard * cp === 1) return { sets: { 'parallel.strategy': 'NO_SHARD' }, ...ranks(shard, other) };
  const reshard = String(other('parallelism.fsdp_reshard_after_forward') ?? 'default');
  const isKept =
    reshard === 'never' || (reshard === 'default' && degreeOf(other, 'pipeline_parallel_degree') > 1);
  return {
    sets: {
      'parallel.strategy': strategyWith('FULL_SHARD', {
        isHybrid: dpReplicate > 1,
        reshardAfterForward: !isKept,
      }),
      ...(dpReplicate > 1 &&
        Number.isInteger(shard) &&
        shard > 0 && { 'parallel.mesh': { dpReplicate, dpShard: shard * cp } }),
    },
    ...ranks(shard, other),
  };
}

/** Returns the number of ranks, if no degree is -1. */
function ranks(shard: number, other: KeyInput['other']): Pick<Translation, 'place'> {
  if (!Number.isInteger(shard) || shard < 1) return {};
  const degrees = [
    'data_parallel_replicate_degree',
    'tensor_parallel_degree',
    'pipeline_parallel_degree',
    'context_parallel_degree',
  ];
  return { place: { world: degrees.reduce((product, key) => product * degreeOf(other, key), shard) } };
}

/** Returns the number of data-parallel ranks of an export. */
export function dataRanks({ config, machines, ranksPerMachine }: Exported): number {
  return dataRanksOf(config, machines * ranksPerMachine);
}

/** Returns the number of replicas; each replica is sharded over the remaining data-parallel ranks. */
function replicas(exported: Exported): number {
  const { strategy: name, mesh } = exported.config.parallel;
  if (name === 'NO_SHARD') return dataRanks(exported);
  return STRATEGIES[name].isHybrid ? (mesh?.dpReplicate ?? exported.machines) : 1;
}

const sharding = (check: (value: unknown) => unknown, write: (exported: Exported) => unknown): KeyRow =>
  both(
    decides('parallel.strategy', (input) => {
      check(input.value);
      return strategy(input);
    }),
    write,
  );

const isPipeline = (other: KeyInput['other']): boolean => degreeOf(other, 'pipeline_parallel_degree') > 1;

/** Returns the row of a key of pipelines; an export has it if the config has stages. */
function ofPipeline(
  path: string,
  mean: (input: KeyInput) => Translation,
  write: (exported: Exported) => unknown,
): KeyRow {
  return both(
    decides(path, (input) =>
      isPipeline(input.other) ? mean(input) : { effect: 'none', why: 'the model is not cut into stages' },
    ),
    (exported) => (exported.config.parallel.pp > 1 ? write(exported) : undefined),
  );
}

const SCHEDULES: Readonly<Record<string, string>> = {
  GPipe: 'gpipe',
  '1F1B': '1f1b',
  Interleaved1F1B: 'interleaved',
  ZBH1: 'zb',
};

function pipelineSchedule({ value }: KeyInput): Translation {
  const name = Object.keys(SCHEDULES).find((one) => one.toLowerCase() === String(value).toLowerCase());
  return name === undefined
    ? {
        effect: 'refused',
        why: `there is no schedule ${String(value)} here; choose gpipe, 1f1b, interleaved or zb`,
      }
    : { sets: { 'parallel.schedule': SCHEDULES[name] } };
}

/** Returns a schedule's name. TorchTitan, like torch, no longer has a zero-bubble schedule with one stage per rank. */
const writtenSchedule = ({ config: { parallel } }: Exported): string | undefined =>
  parallel.schedule === 'zb' ? '1F1B' : wordOf<string>(SCHEDULES, parallel.schedule);

/** Returns the stages per rank of a published model, because its number of layers is known. */
function virtualStages({ value, other }: KeyInput): Translation {
  const model = modelNamed(`${String(other('model.name') ?? 'llama3')}-${String(other('model.flavor'))}`);
  const shape = model === null ? null : modelShape({ model });
  if (shape === null || !('layers' in shape))
    return { effect: 'none', why: 'divides the layers of a model that is not known here' };
  const stages = Math.ceil(shape.layers / wholeOf(value)) / degreeOf(other, 'pipeline_parallel_degree');
  return stages === 1
    ? { effect: 'none', why: 'a rank has one stage' }
    : { sets: { 'parallel.virtualStages': wholeOf(stages) } };
}

/** Returns the number of layers per stage from which TorchTitan makes the config's stages; undefined if no number does. */
export function layersPerStage({ config }: Pick<Exported, 'config'>): number | undefined {
  const shape = modelShape(config);
  const stages = config.parallel.pp * virtualStagesOf(config.parallel);
  if (!('layers' in shape)) return undefined;
  const layers = Math.ceil(shape.layers / stages);
  return Math.ceil(shape.layers / layers) === stages ? layers : undefined;
}

const LESS_LAYERS = both(
  none('a pipeline here divides its layers as parallel.stageSplit says'),
  ({ config }) => (config.parallel.pp > 1 ? 0 : undefined),
);

export const PARALLELISM: KeyTable = {
  ...OTHER.parallelism,
  data_parallel_replicate_degree: sharding((value) => wholeOf(value), replicas),
  data_parallel_shard_degree: sharding(
    (value) => (Number(value) === -1 ? -1 : wholeOf(value)),
    (exported) => dataRanks(exported) / replicas(exported),
  ),
  fsdp_reshard_after_forward: sharding(
    word({ default: 1, always: 1, never: 1 }),
    ({ config: { parallel } }) => {
      if (parallel.strategy === 'NO_SHARD') return undefined;
      const isFreed = parallel.reshardAfterForward ?? STRATEGIES[parallel.strategy].reshardAfterForward;
      return isFreed === false ? 'never' : 'always';
    },
  ),
  tensor_parallel_degree: both(
    decides('parallel.tp', ({ value }) => ({
      sets: {
        'parallel.tp': wholeOf(value),
        // TorchTitan always divides norms and residuals by positions.
        ...(wholeOf(value) > 1 && { 'parallel.sequenceParallel': true }),
      },
    })),
    ({ config }) => config.parallel.tp,
  ),
  pipeline_parallel_degree: settingBoth('parallel.pp', whole),
  context_parallel_degree: both(
    decides('parallel.cp', ({ value }) =>
      wholeOf(value) === 1
        ? { effect: 'none', why: 'sequences are not divided' }
        : { sets: { 'parallel.cp': wholeOf(value), 'parallel.cpKind': 'ring' } },
    ),
    ({ config }) => config.parallel.cp,
  ),
  expert_parallel_degree: decides('parallel.ep', ({ value }) =>
    wholeOf(value) === 1
      ? { effect: 'none', why: 'experts are not divided' }
      : { sets: { 'parallel.ep': wholeOf(value) } },
  ),
  pipeline_parallel_schedule: ofPipeline('parallel.schedule', pipelineSchedule, writtenSchedule),
  pipeline_parallel_microbatch_size: ofPipeline(
    'parallel.microbatches',
    ({ value, other }) => {
      const batch = Number(other('training.local_batch_size') ?? other('training.batch_size') ?? 8);
      return { sets: { 'parallel.microbatches': wholeOf(batch / wholeOf(value)) } };
    },
    ({ config }) => config.batch / microbatchesOf(config),
  ),
  pipeline_parallel_layers_per_stage: ofPipeline('parallel.virtualStages', virtualStages, layersPerStage),
  pipeline_parallel_first_stage_less_layers: LESS_LAYERS,
  pipeline_parallel_last_stage_less_layers: LESS_LAYERS,
};
