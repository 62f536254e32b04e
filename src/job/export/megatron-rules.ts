import { usesFloat16 } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import { ANYWHERE, left, other, type Rules, reducedIn, refused } from './common-rules';
import type { BundleFacts, Said } from './target';

/** Returns the rule of FSDP2. Source: the checks of --use-torch-fsdp2 in Megatron-LM's megatron/training/arguments.py. */
function byTorchFsdp2({ parallel, mixedPrecision }: BundleFacts['config'], isTied: boolean): Said {
  const { strategy, tp, cp, pp } = parallel;
  const obstacles = [
    ...(tp * cp * pp > 1 ? ['parallel.tp, cp and pp'] : []),
    ...(isTied ? ['model.tied true'] : []),
    ...(mixedPrecision?.paramDtype === 'float16' ? ['float16'] : []),
  ];
  return obstacles.length > 0
    ? refused(`${strategy} is Megatron-LM's FSDP2, which excludes ${obstacles.join(', ')}; use ZERO_1`)
    : other('is --use-torch-fsdp2, whose units are layers');
}

/** Rules of Megatron-LM, which has its own training script, batches and initial values. */
export const MEGATRON_RULES: Rules = {
  ...ANYWHERE,
  model: 'said',
  'parallel.strategy': ({ config, shape }) => {
    const { strategy } = config.parallel;
    const isSharded = STRATEGIES[strategy].shardedAtRest.includes('parameter');
    if (STRATEGIES[strategy].isHybrid)
      return refused('Megatron-LM has no hybrid strategy by flags; use FULL_SHARD or ZERO_1');
    if (strategy === 'ZERO_2')
      return refused('Megatron-LM shards optimizer states alone or all states; use ZERO_1 or FULL_SHARD');
    return isSharded ? byTorchFsdp2(config, shape.tied) : 'said';
  },
  'parallel.mesh': left('without a hybrid strategy, it has no effect'),
  'parallel.reshardAfterForward': left("Megatron-LM's default is used"),
  'parallel.wrap': left('every layer is a unit'),
  'parallel.bucketBytes': left("Megatron-LM's default size of buckets is used"),
  'parallel.noSync': left('Megatron-LM reduces gradients after the last microbatch: the same values'),
  'parallel.communicationDataType': left("Megatron-LM's type of gradients is used: float32 with bf16"),
  'parallel.tp': 'said',
  'parallel.sequenceParallel': 'said',
  'parallel.cp': 'said',
  'parallel.cpKind': 'said',
  'parallel.pp': 'said',
  'parallel.schedule': ({ config: { parallel } }) =>
    parallel.schedule === '1f1b' || parallel.schedule === 'interleaved'
      ? 'said'
      : other('is 1F1B: the same values, in another order'),
  'parallel.virtualStages': 'said',
  'parallel.microbatches': 'said',
  'parallel.stageSplit': ({ config: { parallel } }) =>
    parallel.stageSplit === 'layers' ? 'said' : other('stages have equally many layers'),
  'mixedPrecision.paramDtype': (facts) => reducedIn('float32', facts),
  'mixedPrecision.reduceDtype': (facts) => reducedIn('float32', facts),
  accumulation: ({ config: { parallel } }) =>
    parallel.pp === 1 ? 'said' : other('the pipeline runs the microbatches of all passes as one pass'),
  'mixedPrecision.outputDtype': left('outputs are not rounded'),
  'mixedPrecision.castForwardInputs': left('the model is converted as a whole'),
  gradScaler: ({ config }) =>
    usesFloat16(config) ? 'said' : left('nothing is float16, so a scale changes no value'),
  'offload.optimizer': left('optimizer states stay on the GPU'),
  'offload.parameters': left('parameters stay on the GPU'),
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }) => {
    if (chosen === 'full' || chosen === 'selective') return 'said';
    return typeof chosen === 'object' && chosen !== null && 'everyNth' in chosen
      ? other("is 'full': every layer runs again")
      : other("is 'selective': attention runs again");
  },
  data: other(
    'the tokens of the first steps are a data set; Megatron-LM chooses its rows by a seed of its own',
  ),
  'optimizer.kind': ({ config: { optimizer } }) => {
    if (optimizer.kind === 'adamW' || optimizer.kind === 'sgd') return 'said';
    return refused(`Megatron-LM has no ${optimizer.kind} by flags; use adamW or sgd`);
  },
  'optimizer.amsgrad': refused('Megatron-LM has no amsgrad; leave it out'),
  'optimizer.nesterov': refused("Megatron-LM's sgd has no nesterov; leave it out"),
  'optimizer.maximize': refused('Megatron-LM only minimizes; leave it out'),
  schedule: ({ config: { schedule } }) => {
    if (schedule?.kind === 'step' || schedule?.kind === 'exponential')
      return refused(`Megatron-LM has no schedule '${schedule.kind}'; use linear, cosine or wsd`);
    return schedule?.kind === 'WarmupCosineLR' ? other('is cosine, which ends one step later') : 'said';
  },
  frozen: refused('Megatron-LM freezes nothing by flags; leave it out'),
  seed: other('is the seed of other initial values and another order of rows'),
};
