import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import type { TorchFramework } from '../control/torch-messages';

const KINDS: readonly string[] = ['gpt', 'llama', 'moe', 'dit', 'python'];
const OPTIMIZERS: readonly string[] = ['adamW', 'adam', 'sgd'];
const SHARDED: readonly string[] = ['FULL_SHARD', 'SHARD_GRAD_OP', 'HYBRID_SHARD', '_HYBRID_SHARD_ZERO2'];

/**
 * Checks the settings of which PyTorch's ranks support only some values. Returns a message for each value that they do not
 * support; the message says what to do. `world` is the number of the run's ranks. Python trusts this list and checks nothing
 * again.
 */
export function refusedValues(config: TrainConfig, framework: TorchFramework, world: number): string[] {
  const { optimizer, activationCheckpointing: recompute } = config;
  const { kind } = modelShape(config);
  const refused: readonly (readonly [boolean, string])[] = [
    [
      !KINDS.includes(kind),
      `model: kind '${kind}' is not built for PyTorch, which has ${KINDS.join(', ')}; train it with engine 'wasm'`,
    ],
    [
      !OPTIMIZERS.includes(optimizer.kind),
      `optimizer.kind: PyTorch has ${OPTIMIZERS.join(', ')}, not '${optimizer.kind}'`,
    ],
    [
      typeof recompute === 'object' && recompute !== null && !('everyNth' in recompute),
      "activationCheckpointing: PyTorch has 'full', 'selective', { everyNth: n } and null",
    ],
    [
      kind === 'python' && dividedBy(config) > 1,
      'parallel.tp, pp, cp and ep: a model of your own in Python is not divided here; divide it by a strategy, such as FULL_SHARD',
    ],
    ...parallelValues(config, framework, world),
    ...expertValues(config, framework),
    ...videoValues(config, framework),
    ...adapterValues(config, framework),
    ...precisionValues(config),
    ...(framework === 'deepspeed' ? deepSpeedValues(config) : []),
  ];
  return refused.flatMap(([isRefused, text]) => (isRefused ? [text] : []));
}

/** Returns the largest of the degrees `tp`, `cp`, `pp` and `ep`. */
function dividedBy({ parallel: { tp, pp, cp, ep } }: TrainConfig): number {
  return Math.max(tp, pp, cp, ep);
}

function parallelValues(
  { parallel }: TrainConfig,
  framework: TorchFramework,
  world: number,
): (readonly [boolean, string])[] {
  const { strategy, tp, pp, schedule, stageSplit, wrap, reshardAfterForward } = parallel;
  const isSharded = SHARDED.includes(strategy);
  return [
    [
      strategy === 'ZERO_2' && framework !== 'deepspeed',
      "parallel.strategy: ZERO_2 needs DeepSpeed: job.train(config, { framework: 'deepspeed' }); or use ZERO_1 or SHARD_GRAD_OP",
    ],
    [
      tp > 1 && !isSharded && tp * pp < world,
      `parallel.strategy: on PyTorch, ${strategy} cannot replicate matrices that parallel.tp has split; use FULL_SHARD`,
    ],
    [
      pp > 1 && strategy === 'ZERO_1',
      'parallel.strategy: ZERO_1 is not built for the stages of a pipeline on PyTorch; use NO_SHARD or FULL_SHARD',
    ],
    [
      framework === 'fsdp1' && Math.max(tp, pp) > 1,
      "parallel.tp and parallel.pp: framework 'fsdp1' does not divide the model; use framework 'fsdp2'",
    ],
    [
      framework === 'fsdp1' && reshardAfterForward !== null,
      "parallel.reshardAfterForward: framework 'fsdp1' has only a strategy's default; use framework 'fsdp2'",
    ],
    [
      pp > 1 && schedule === 'zb',
      "parallel.schedule: 'zb' is not built for PyTorch; use '1f1b' or 'interleaved'",
    ],
    [
      pp > 1 && stageSplit !== 'layers' && !(Array.isArray(stageSplit) && typeof stageSplit[0] === 'number'),
      "parallel.stageSplit: PyTorch has 'layers' and layers per stage, as [3, 2]",
    ],
    [
      typeof wrap === 'object' && 'minNumParams' in wrap,
      "parallel.wrap: minNumParams is not built for PyTorch; name modules, as { modules: ['blocks.*'] }, or use 'blocks'",
    ],
  ];
}

function expertValues(config: TrainConfig, framework: TorchFramework): (readonly [boolean, string])[] {
  const shape = modelShape(config);
  if (shape.kind !== 'moe') return [];
  const { strategy, tp, pp, cp, ep } = config.parallel;
  return [
    [
      framework === 'deepspeed',
      "model: a model of kind 'moe' is not built with framework 'deepspeed'; use framework 'fsdp2'",
    ],
    [
      shape.biasUpdateRate > 0,
      'model.biasUpdateRate: biases that balance experts are not built for PyTorch; use auxLossWeight',
    ],
    [tp > 1, "parallel.tp: a model of kind 'moe' is not split by tp on PyTorch; use ep or cp"],
    [
      ep > 1 && strategy === 'ZERO_1',
      'parallel.ep: ZERO_1 does not support experts that differ between ranks on PyTorch; use NO_SHARD or FULL_SHARD',
    ],
    [
      ep > 1 && framework === 'fsdp1',
      "parallel.ep: framework 'fsdp1' does not support experts that differ between ranks; use framework 'fsdp2'",
    ],
    [
      ep > 1 && Math.max(pp, cp) > 1,
      'parallel.ep: ep is not built together with pp or cp for PyTorch; set ep to 1, or set pp and cp to 1',
    ],
  ];
}

function videoValues(config: TrainConfig, framework: TorchFramework): (readonly [boolean, string])[] {
  const shape = modelShape(config);
  if (shape.kind !== 'dit') return [];
  const { tp, cp } = config.parallel;
  return [
    [
      framework === 'deepspeed',
      "model: a model of kind 'dit' is not built with framework 'deepspeed'; use framework 'fsdp2'",
    ],
    [
      Math.max(tp, cp) > 1,
      "parallel.tp and cp: a model of kind 'dit' is not divided on PyTorch; use FULL_SHARD, or engine 'wasm' for cp",
    ],
  ];
}

function adapterValues(config: TrainConfig, framework: TorchFramework): (readonly [boolean, string])[] {
  const { lora } = config;
  if (lora === null) return [];
  return [
    [
      modelShape(config).kind === 'python',
      "lora: a model of your own in Python gets no adapters here; make them in the model's class, for example by PEFT's get_peft_model",
    ],
    [
      lora.dropout > 0,
      'lora.dropout: ranks of PyTorch would draw other random numbers than those of this library; leave it out (shardlab sft: --lora_dropout 0)',
    ],
    [framework === 'deepspeed', "lora is not built with framework 'deepspeed'; use framework 'fsdp2'"],
  ];
}

function precisionValues({ mixedPrecision }: TrainConfig): (readonly [boolean, string])[] {
  if (mixedPrecision === null) return [];
  const { paramDtype, reduceDtype, outputDtype } = mixedPrecision;
  return [
    [
      [paramDtype, reduceDtype].includes('float16'),
      "mixedPrecision: float16 and its scaler are not built for PyTorch; use mixedPrecision: 'bf16'",
    ],
    [
      outputDtype !== null && outputDtype !== 'float32',
      'mixedPrecision.outputDtype: PyTorch computes the loss in float32; leave it out',
    ],
  ];
}

/** The strategies that are stages of DeepSpeed's ZeRO. */
const ZERO_STAGES: readonly string[] = ['ZERO_1', 'ZERO_2', 'FULL_SHARD'];

function deepSpeedValues({ parallel, mixedPrecision, frozen }: TrainConfig): (readonly [boolean, string])[] {
  const { strategy, tp, pp, cp, ep, noSync } = parallel;
  const only = "not built with framework 'deepspeed'";
  return [
    [
      !ZERO_STAGES.includes(strategy),
      `parallel.strategy: ${strategy} is ${only}, which has ZERO_1, ZERO_2 and FULL_SHARD (its ZeRO-3)`,
    ],
    [Math.max(tp, pp, cp, ep) > 1, `parallel.tp, pp, cp and ep are ${only}; use framework 'fsdp2'`],
    [mixedPrecision !== null, `mixedPrecision is ${only}; use framework 'fsdp2'`],
    [frozen.length > 0, `frozen is ${only}; use framework 'fsdp2'`],
    [noSync !== null, 'parallel.noSync: DeepSpeed decides when it reduces gradients; leave it out'],
  ];
}
