import {
  isChanged,
  modelShape,
  type SettingPath,
  type TrainConfig,
  usualConfig,
  WHOLE_SETTINGS,
} from '../config';
import { ConfigError } from '../core';
import type { TorchFramework } from '../launch';
import { refusedValues } from './values';

/** Whether PyTorch's ranks do what a setting says; if not, the reason, and often an alternative. */
type Support = 'done' | Unread;
type Unread = { readonly refused: string } | { readonly ignored: string };

/** What all frameworks do in place of a setting, or what some of them do; the others do what the setting says. */
type Exception = Unread | Readonly<Partial<Record<TorchFramework, Unread>>>;

const refused = (reason: string): Unread => ({ refused: reason });
const ignored = (reason: string): Unread => ({ ignored: reason });

const ONE_STAGE = refused("DeepSpeed's engine has one ZeRO stage for all parameters; use framework 'fsdp2'");

/** The exception of a setting that only FSDP1 reads. */
const ONLY_FSDP1 = (fullyShard: string): Exception => ({
  fsdp2: ignored(`fully_shard ${fullyShard}; framework 'fsdp1' reads this setting`),
  deepspeed: ignored("DeepSpeed has its own order of gathering; framework 'fsdp1' reads this setting"),
});

/**
 * [Note: settings on PyTorch] PyTorch's ranks do what a setting says, with these exceptions. A setting that changes nothing needs no
 * exception. For every other setting that is not here, a test finds the code in Python that reads the setting, or the launcher acts
 * on it. A setting that is refused may only have its default, or have no effect in the config.
 */
const EXCEPTIONS: Readonly<Partial<Record<SettingPath, Exception>>> = {
  'parallel.reshardAfterForward': {
    fsdp1: refused("framework 'fsdp1' has only a strategy's default; use framework 'fsdp2'"),
    deepspeed: ignored(
      "DeepSpeed itself decides when it frees parameters; framework 'fsdp2' reads this setting",
    ),
  },
  'parallel.wrap': { deepspeed: ignored('DeepSpeed gathers parameters per module, and has no units') },
  'parallel.unitStrategies': { deepspeed: ONE_STAGE },
  'parallel.ignoredModules': { deepspeed: ONE_STAGE },
  'parallel.forwardPrefetch': ONLY_FSDP1('has its own order of gathering'),
  'parallel.backwardPrefetch': ONLY_FSDP1("has only 'BACKWARD_PRE'"),
  'parallel.limitAllGathers': ONLY_FSDP1('always limits all-gathers'),
  'parallel.noSync': { deepspeed: refused('DeepSpeed decides when it reduces gradients; leave it out') },
  'parallel.sparseGradients': refused(
    "torch.optim's AdamW and Adam refuse sparse gradients (SparseAdam has another update), FSDP reduces only dense ones, and DDP reduces the experts that no row reached too; leave it out, or train with engine 'wasm'",
  ),
  'mixedPrecision.bufferDtype': ignored('buffers have the type that the model gives them'),
  'mixedPrecision.keepLowPrecisionGrads': {
    fsdp2: refused("fully_shard converts gradients to the type of parameters; use framework 'fsdp1'"),
  },
  loss: refused(
    "a loss of your own is JavaScript; train it with engine 'wasm', or write Python in a %%ranks --python cell",
  ),
  'optimizer.blockSize': refused('only adamW8bit reads it, which PyTorch does not have'),
  'optimizer.delayedUpdate': {
    deepspeed: refused(
      "DeepSpeed's engine applies gradients in the step that has reduced them; use framework 'fsdp2'",
    ),
  },
  frozen: { deepspeed: refused("not built with framework 'deepspeed'; use framework 'fsdp2'") },
  dpo: refused(
    "training on pairs is not built for PyTorch's ranks; train with engine 'wasm', or by TRL's DPOTrainer",
  ),
  lora: { deepspeed: refused("not built with framework 'deepspeed'; use framework 'fsdp2'") },
};

/** Returns whether ranks of a framework do what a setting says. */
export function torchSupport(
  { path, changes }: Pick<(typeof WHOLE_SETTINGS)[number], 'path' | 'changes'>,
  framework: TorchFramework = 'fsdp2',
): Support {
  const exception: Exception = EXCEPTIONS[path] ?? {};
  const unread = 'refused' in exception || 'ignored' in exception ? exception : exception[framework];
  return unread ?? (changes === 'nothing' ? ignored('no training depends on it') : 'done');
}

/** Returns warnings about settings of data that a model with batches of its own does not read. */
function unreadBeside(paths: readonly SettingPath[], config: TrainConfig): string[] {
  const shape = modelShape(config);
  if (shape.kind !== 'python' || shape.batches === undefined) return [];
  return paths
    .filter((path) => path === 'data' || path === 'batch')
    .map((path) => `${path} has no effect: model.batches names the function that makes the batches`);
}

/**
 * Returns a warning for each setting that has no effect on PyTorch. Throws: CONFIG, which names each setting that PyTorch's ranks
 * do not support.
 */
export function checkForTorch(config: TrainConfig, framework: TorchFramework, world: number): string[] {
  const usual = usualConfig(config);
  const asked = WHOLE_SETTINGS.filter(({ path }) => isChanged(path, config, usual));
  const warnings: string[] = [];
  const problems: string[] = [];
  for (const row of asked) {
    const support = torchSupport(row, framework);
    if (support === 'done') continue;
    if ('ignored' in support)
      warnings.push(`${row.path} has no effect with engine 'torch': ${support.ignored}`);
    else if ((row.idle?.(config) ?? null) === null) problems.push(`${row.path}: ${support.refused}`);
  }
  warnings.push(
    ...unreadBeside(
      asked.map(({ path }) => path),
      config,
    ),
  );
  problems.push(...refusedValues(config, framework, world));
  if (problems.length === 0) return warnings;
  throw new ConfigError(
    `engine 'torch' does not do everything that this config asks for:\n${problems.join('\n')}`,
    { refused: problems },
  );
}
