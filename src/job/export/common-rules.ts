import type { SettingPath } from '../../config/setting-table';
import { type FloatDType, reduceDtypeOf } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import type { BundleFacts, Rule, Said } from './target';

/**
 * [Note: exported settings] Every target has a rule for every setting; a missing rule does not compile. Rules are only
 * applied to values that are not the default. A setting that the target cannot express is left out, with a sentence in the
 * report, only if it changes time, memory or messages and the losses stay the same up to rounding. A setting that
 * changes what is trained is refused. The names of settings in other programs come from the table of settings.
 */
export type Rules = Readonly<Record<SettingPath, Rule>>;

export const other = (text: string): Said => ({ other: text });
export const left = (text: string): Said => ({ left: text });
export const refused = (text: string): Said => ({ refused: text });

/** Rules of programs that read the user's texts in an order of their own. */
export const OWN_DATA_RULE = other('the program reads texts from data/train.jsonl, in its own order');
export const OWN_SEED_RULE = other("is the seed of the program's own random numbers");

/**
 * Returns how a target treats a strategy. A hybrid strategy without a mesh has one replica in this library, but one
 * replica per machine in the target.
 */
export function replicasRule({ config: { parallel }, machines }: BundleFacts): Said {
  const { isHybrid, reshardAfterForward } = STRATEGIES[parallel.strategy];
  if (!isHybrid || (parallel.mesh !== null && parallel.mesh.dpReplicate > 1)) return 'said';
  return parallel.mesh === null && machines > 1
    ? other('has one replica per machine; parallel.mesh sets another number of replicas')
    : other(`has one replica, so it is ${reshardAfterForward ? 'FULL_SHARD' : 'SHARD_GRAD_OP'}`);
}

/** Returns how a program that always reduces gradients in the type `there` treats the setting of this type. */
export function reducedIn(there: FloatDType, { config }: Pick<BundleFacts, 'config'>): Said {
  return reduceDtypeOf(config) === there ? 'said' : other(`gradients are reduced in ${there}`);
}

/**
 * Returns the type in which Accelerate and transformers' Trainer reduce gradients: the parameters' type if these are sharded,
 * else float32, because gradients are float32 under torch.autocast.
 */
export function trainerReduction({ config }: Pick<BundleFacts, 'config'>): FloatDType {
  return config.parallel.strategy === 'NO_SHARD'
    ? 'float32'
    : (config.mixedPrecision?.paramDtype ?? 'float32');
}

export const IN_SCRIPT = 'write it into train.py, or leave it out of the config';

/** Rules of settings that every target treats in the same way. */
export const ANYWHERE = {
  'parallel.unitStrategies': left('all units have the strategy of parallel.strategy'),
  'parallel.ignoredModules': refused('modules outside of all units are not exported; leave the setting out'),
  'parallel.syncModuleStates': left('all ranks read the same file of weights'),
  'parallel.forwardPrefetch': left("the framework's default gathers the next unit in advance"),
  'parallel.backwardPrefetch': left("the framework's default gathers the next unit in advance"),
  'parallel.limitAllGathers': left("the framework's own limit applies"),
  'parallel.sparseGradients': left('gradients are reduced dense: the same values, and more bytes'),
  'parallel.commHook': refused(`compression of gradients changes them; ${IN_SCRIPT}`),
  'parallel.expertPlacement': left('the models have no experts'),
  'parallel.ep': refused('models with experts are not exported; leave it out'),
  'mixedPrecision.bufferDtype': left('the models have no buffers'),
  'mixedPrecision.keepLowPrecisionGrads': left('gradients are stored in the type that the framework chooses'),
  'offload.activations': left('activations stay on the GPU, which needs more memory'),
  movingShapes: left('only training on videos uses it'),
  textEncoder: refused('text encoders are not exported'),
  loss: refused('a loss of your own is JavaScript; leave it out, and write it in Python into train.py'),
  batch: 'said',
  accumulation: 'said',
  'optimizer.lr': 'said',
  'optimizer.betas': 'said',
  'optimizer.eps': 'said',
  'optimizer.weightDecay': 'said',
  'optimizer.momentum': 'said',
  'optimizer.fused': left("the framework's default is used"),
  'optimizer.blockSize': left('only adamW8bit reads it'),
  'optimizer.groups': refused(`groups of parameters are not exported; ${IN_SCRIPT}`),
  'optimizer.delayedUpdate': refused('no framework has the delayed update; leave it out'),
  lora: refused(
    'adapters are not exported; run.savePretrained(folder) writes the model with the adapters in it',
  ),
  clipNorm: 'said',
  steps: 'said',
} as const satisfies Partial<Rules>;
