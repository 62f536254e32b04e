import { valueAt } from '../config/config-issue';
import { type PlannedPath, SETTING_ROWS } from '../config/setting-table';
import { isGathered } from '../config/settings/gathering';
import { isOwnModel, MODEL_PARTS, modelShape } from '../config/settings/model';
import { microbatchesOf, virtualStagesOf } from '../config/settings/pipeline';
import { reduceDtypeOf } from '../config/settings/precision';
import { encoderShape } from '../config/settings/videos';
import { STRATEGIES, type StrategyName } from '../config/strategies';
import { parseTrainConfig, type TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { buildModel, chooseTrained } from '../nn/models/build-model';
import type { Asked } from './layout-of';
import { shapeOf } from './model-shape';
import { shapeOfConfig } from './models';
import type { ReadPlace } from './place';

/** A setting whose value a plan does not use, and the sentence that says what is planned instead. */
export interface Assumed {
  readonly setting: string;
  readonly says: string;
}

/** The settings of a config whose values a plan does not use. */
export interface ConfigReading {
  /** Settings that would affect a training on GPUs, but are planned with another value. */
  readonly assumed: readonly Assumed[];
  /** Settings that affect neither time nor memory of a step. */
  readonly withoutEffect: readonly string[];
}

/** Further inputs of a reader: the GPUs for which the config is planned. */
interface At {
  readonly gpus: number;
  /** Number of data-parallel ranks. */
  readonly dp: number;
}

type Reader = (config: TrainConfig, at: At) => Asked;

/**
 * A reader for each setting that a plan reads. It is a compile error if the row of a setting says `reads`, but the setting has no
 * reader.
 */
const READERS: Readonly<Record<PlannedPath, Reader>> = {
  model: modelOf,
  batch: batchOf,
  accumulation: batchOf,
  activationCheckpointing: recomputeOf,
  'parallel.strategy': parallelOf,
  'parallel.mesh': parallelOf,
  'parallel.reshardAfterForward': parallelOf,
  'parallel.communicationDataType': reduceDtype,
  'parallel.commHook': ({ parallel: { commHook } }) => (commHook === null ? {} : { commHook }),
  'parallel.tp': tensorParallelOf,
  'parallel.sequenceParallel': tensorParallelOf,
  'parallel.ep': ({ parallel: { ep } }) => (ep === 1 ? {} : { ep }),
  'parallel.cp': ({ parallel: { cp } }) => (cp === 1 ? {} : { cp }),
  'parallel.pp': pipelineOf,
  'parallel.schedule': pipelineOf,
  'parallel.virtualStages': pipelineOf,
  'parallel.microbatches': batchOf,
  'mixedPrecision.reduceDtype': reduceDtype,
  'mixedPrecision.paramDtype': ({ mixedPrecision }) => ({
    precision: PRECISIONS[mixedPrecision?.paramDtype ?? 'float32'],
  }),
  'offload.optimizer': offloadOf,
  'offload.parameters': offloadOf,
  frozen: trainedShareOf,
  lora: trainedShareOf,
  textEncoder: textEncoderOf,
  'optimizer.kind': optimizerOf,
  'optimizer.amsgrad': optimizerOf,
  'optimizer.momentum': optimizerOf,
  'optimizer.blockSize': optimizerOf,
};

/** Returns what a config says about a training on GPUs. Throws: CONFIG if it cannot be planned. */
export function askedByConfig(config: TrainConfig, { gpus: given }: Pick<ReadPlace, 'gpus'>): Asked {
  const { tp, pp, cp } = config.parallel;
  const gpus = given ?? defaultGpus(config.parallel);
  const at = { gpus, dp: gpus / (tp * pp * cp) };
  return Object.assign({ gpus }, ...[...new Set(Object.values(READERS))].map((read) => read(config, at)));
}

/** Returns the number of GPUs if a place has none: the mesh's ranks; without a mesh, the 8 ranks of a node. */
export function defaultGpus({ mesh, tp, pp }: TrainConfig['parallel']): number {
  return mesh === null ? 8 : mesh.dpReplicate * mesh.dpShard * tp * pp;
}

/** Finds the settings that differ from their defaults and whose values the plan does not use. */
export function readingOf(config: TrainConfig, input: object, place: ReadPlace): ConfigReading {
  const defaults = parseTrainConfig({ mixedPrecision: {} });
  const assumed: Assumed[] = [];
  const withoutEffect = valuesOfModel(input);
  for (const { path, planned, idle } of SETTING_ROWS) {
    const value = valueAt(config, path.split('.'));
    const isChanged =
      value !== undefined && JSON.stringify(value) !== JSON.stringify(valueAt(defaults, path.split('.')));
    if (planned === null || !isChanged) continue;
    const says =
      'refused' in planned ? planned.refused : (planned.but?.(config, place) ?? idle?.(config) ?? null);
    if (says !== null) assumed.push({ setting: path, says: `${path} ${shown(value)} ${says}` });
    else if ('ignored' in planned) withoutEffect.push(path);
  }
  return { assumed, withoutEffect };
}

function modelOf(config: TrainConfig): Asked {
  const shape = modelShape(config);
  if (shape.kind === 'own') return {};
  const isEager =
    shape.kind !== 't5-encoder' && 'attention' in shape ? shape.attention !== 'flash' : shape.kind === 'gpt';
  return { model: shapeOfConfig(config), ...(isEager ? { attention: 'unfused' } : {}) };
}

function batchOf(config: TrainConfig, { dp }: At): Asked {
  const { batch, accumulation } = config;
  const micro = config.parallel.pp === 1 ? batch : batch / microbatchesOf(config);
  return { micro, global: batch * accumulation * dp };
}

function pipelineOf({ parallel }: TrainConfig): Asked {
  const { pp, schedule } = parallel;
  return pp === 1
    ? {}
    : { pp, virtualStages: virtualStagesOf(parallel), schedule: PLANNED_SCHEDULES[schedule] };
}

const PLANNED_SCHEDULES = { gpipe: 'GPipe', '1f1b': '1F1B', interleaved: 'interleaved', zb: '1F1B' } as const;

function recomputeOf({ activationCheckpointing: chosen }: TrainConfig): Asked {
  if (chosen === null) return { recompute: 'none' };
  if (typeof chosen === 'string') return { recompute: chosen };
  if ('everyNth' in chosen) return { recompute: 'full', recomputeEveryNth: chosen.everyNth };
  return { recompute: 'selective' };
}

function parallelOf({ parallel }: TrainConfig, { gpus }: At): Asked {
  const { mesh, strategy } = parallel;
  const ranks = gpus / (parallel.tp * parallel.pp);
  if (mesh !== null && !Number.isInteger(ranks / mesh.dpShard)) {
    throw new ConfigError(
      `parallel.mesh: dpShard ${mesh.dpShard} does not divide the ${ranks} ranks that share shards of ${gpus} GPUs; change dpShard or gpus`,
    );
  }
  return {
    strategy: strategyOf(parallel),
    ...(mesh === null || !STRATEGIES[strategy].isHybrid ? {} : { dpShard: mesh.dpShard }),
  };
}

function tensorParallelOf({ parallel: { tp, sequenceParallel } }: TrainConfig): Asked {
  return tp === 1 ? {} : { tp, sequenceParallel };
}

/** Returns the strategy that reshardAfterForward chooses; the strategies to choose from differ only in reshardAfterForward. */
function strategyOf({ strategy, reshardAfterForward }: TrainConfig['parallel']): StrategyName {
  if (reshardAfterForward === null || !isGathered(strategy)) return strategy;
  const keeps = reshardAfterForward === false;
  if (STRATEGIES[strategy].isHybrid) return keeps ? '_HYBRID_SHARD_ZERO2' : 'HYBRID_SHARD';
  return keeps ? 'SHARD_GRAD_OP' : 'FULL_SHARD';
}

function reduceDtype(config: TrainConfig): Asked {
  if (config.mixedPrecision === null && config.parallel.communicationDataType === null) return {};
  return { reduceDtype: PRECISIONS[reduceDtypeOf(config)] };
}

const PRECISIONS = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const;

/** If parameters are offloaded to the host, the optimizer runs on the host too. */
function offloadOf({ offload, parallel }: TrainConfig): Asked {
  const parameters = offload.parameters && isGathered(parallel.strategy);
  return { offload: { optimizer: offload.optimizer || parameters, parameters } };
}

function optimizerOf({ optimizer }: TrainConfig): Asked {
  const { kind, amsgrad, momentum, blockSize } = optimizer;
  return { optimizer: { kind, amsgrad, momentum, blockSize } };
}

/** Returns the share of parameters that train, with adapters. Builds the model without values to count the parameters. */
function trainedShareOf(config: TrainConfig): Asked {
  const { frozen, lora } = config;
  if ((frozen.length === 0 && lora === null) || isOwnModel(modelShape(config))) return {};
  const model = buildModel(config);
  const numParams = model.numParams();
  chooseTrained(model, config);
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  return { trainedShare: trained.reduce((sum, { size }) => sum + size, 0) / numParams };
}

function textEncoderOf({ textEncoder }: TrainConfig): Asked {
  if (textEncoder === null) return {};
  const { params } = shapeOf(shapeOfConfig({ model: encoderShape(textEncoder) }));
  return { textEncoder: { params, sharded: textEncoder.fsdp } };
}

function valuesOfModel(input: object): string[] {
  const written = writtenModel(input);
  return Object.entries(MODEL_PARTS)
    .filter(([key, { planned }]) => key in written && 'ignored' in planned)
    .map(([key]) => `model.${key}`);
}

/** Returns a model's settings as the user wrote them; no settings if the model is a name. */
function writtenModel(input: object): Readonly<Record<string, unknown>> {
  const model = 'model' in input ? input.model : undefined;
  return typeof model === 'object' ? { ...model } : {};
}

function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
