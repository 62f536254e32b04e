import { type SettingPath, settingAt } from '../../config/setting-table';
import { parseTrainConfig, type TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { TorchFramework } from '../control/torch-messages';
import { refusedValues } from './values';

/**
 * Whether PyTorch's ranks do what a setting says; if not, the reason, and often an alternative. `by` is the framework that
 * ignores the setting; without `by`, every framework ignores it.
 */
type Support =
  | 'done'
  | { readonly refused: string }
  | { readonly ignored: string; readonly by?: TorchFramework };

const ONLY_HERE = (what: string): Support => ({
  refused: `only this library has ${what}; train with engine 'wasm'`,
});

const FSDP1 = "framework 'fsdp1' reads this setting";

/**
 * [Note: settings on PyTorch] For every setting, whether a run on PyTorch does what the setting says. A setting that is
 * refused may only have its default. A missing row is a type error.
 */
const TORCH: Readonly<Record<SettingPath, Support>> = {
  model: 'done',
  'parallel.strategy': 'done',
  'parallel.mesh': 'done',
  'parallel.reshardAfterForward': 'done',
  'parallel.wrap': 'done',
  'parallel.unitStrategies': ONLY_HERE('a strategy per unit'),
  'parallel.ignoredModules': {
    refused: 'modules outside of all units are not built for PyTorch; leave the setting out',
  },
  'parallel.syncModuleStates': { ignored: 'all ranks read the same initial values' },
  'parallel.forwardPrefetch': {
    ignored: `fully_shard has its own order of gathering; ${FSDP1}`,
    by: 'fsdp2',
  },
  'parallel.backwardPrefetch': { ignored: `fully_shard has only 'BACKWARD_PRE'; ${FSDP1}`, by: 'fsdp2' },
  'parallel.limitAllGathers': { ignored: `fully_shard always limits all-gathers; ${FSDP1}`, by: 'fsdp2' },
  'parallel.bucketBytes': 'done',
  'parallel.noSync': 'done',
  'parallel.communicationDataType': { refused: 'set mixedPrecision.reduceDtype instead' },
  'parallel.sparseGradients': ONLY_HERE('sparse reduction of gradients'),
  'parallel.commHook': {
    refused:
      "compression of gradients is not built for PyTorch; register torch's own hook in a %%ranks --python cell",
  },
  'parallel.tp': 'done',
  'parallel.sequenceParallel': 'done',
  'parallel.cp': 'done',
  'parallel.cpKind': 'done',
  'parallel.ep': 'done',
  'parallel.expertPlacement': {
    refused: "on PyTorch each rank has consecutive experts; leave it out, or train with engine 'wasm'",
  },
  'parallel.pp': 'done',
  'parallel.schedule': 'done',
  'parallel.virtualStages': 'done',
  'parallel.microbatches': 'done',
  'parallel.stageSplit': 'done',
  'mixedPrecision.paramDtype': 'done',
  'mixedPrecision.reduceDtype': 'done',
  'mixedPrecision.outputDtype': 'done',
  'mixedPrecision.bufferDtype': { ignored: 'buffers have the type that the model gives them' },
  'mixedPrecision.castForwardInputs': 'done',
  'mixedPrecision.keepLowPrecisionGrads': {
    refused: 'PyTorch converts gradients to the type of parameters; leave it out',
  },
  gradScaler: { refused: "float16 and its scaler are not built for PyTorch; use mixedPrecision: 'bf16'" },
  'offload.optimizer': {
    refused:
      'CPUs have no second memory for the states, and offload from a GPU to its host is not built for PyTorch',
  },
  'offload.parameters': {
    refused:
      'CPUs have no second memory for the parameters, and offload from a GPU to its host is not built for PyTorch',
  },
  'offload.activations': {
    refused:
      'CPUs have no second memory for the activations, and offload from a GPU to its host is not built for PyTorch',
  },
  activationCheckpointing: 'done',
  data: 'done',
  movingShapes: 'done',
  textEncoder: { refused: "text encoders are not built for PyTorch; train with engine 'wasm'" },
  loss: {
    refused:
      "a loss of your own is JavaScript; train it with engine 'wasm', or write Python in a %%ranks --python cell",
  },
  batch: 'done',
  accumulation: 'done',
  'optimizer.kind': 'done',
  'optimizer.lr': 'done',
  'optimizer.betas': 'done',
  'optimizer.eps': 'done',
  'optimizer.weightDecay': 'done',
  'optimizer.amsgrad': 'done',
  'optimizer.momentum': 'done',
  'optimizer.nesterov': 'done',
  'optimizer.maximize': 'done',
  'optimizer.fused': { ignored: "PyTorch's default is used" },
  'optimizer.blockSize': { ignored: 'only adamW8bit reads it' },
  'optimizer.groups': { refused: 'groups of parameters are not built for PyTorch; leave them out' },
  'optimizer.delayedUpdate': ONLY_HERE('the delayed update'),
  schedule: 'done',
  frozen: 'done',
  lora: 'done',
  clipNorm: 'done',
  seed: 'done',
  steps: 'done',
};

/**
 * Returns a warning for each setting that has no effect on PyTorch. Throws: CONFIG, which names each setting that PyTorch's ranks
 * do not support.
 */
export function checkForTorch(config: TrainConfig, framework: TorchFramework, world: number): string[] {
  // No default depends on the model, and the default data would not fit every model.
  const defaults = parseTrainConfig({});
  const changed = (path: string): boolean => {
    const [value, usual] = [settingAt(config, path), settingAt(defaults, path)];
    // `defaults` has no values for the settings of a section that is null by default.
    const isOff = [value, usual].every((one) => one === undefined || one === null || one === false);
    return !isOff && JSON.stringify(value) !== JSON.stringify(usual);
  };
  const rows = Object.entries(TORCH).filter(([path]) => changed(path));
  const refused = [
    ...rows.flatMap(([path, support]) =>
      typeof support === 'object' && 'refused' in support ? [`${path}: ${support.refused}`] : [],
    ),
    ...refusedValues(config, framework, world),
  ];
  if (refused.length > 0) {
    throw new ConfigError(
      `engine 'torch' does not do everything that this config asks for:\n${refused.join('\n')}`,
      {
        refused,
      },
    );
  }
  return rows.flatMap(([path, support]) => {
    const isIgnored =
      typeof support === 'object' && 'ignored' in support && (support.by ?? framework) === framework;
    return isIgnored ? [`${path} has no effect with engine 'torch': ${support.ignored}`] : [];
  });
}

/** For docs and tests: every setting, and whether PyTorch's ranks do what it says. */
export const TORCH_SUPPORT: ReadonlyMap<string, Support> = new Map(Object.entries(TORCH));
