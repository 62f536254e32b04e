import type { OptimizerConfig } from '../../config/settings/optimizer';
import type { ScheduleConfig } from '../../config/settings/schedule';
import type { TrainConfig } from '../../config/train-config';
import type { ModelScript } from './model-parts';
import { keywords, lines } from './python';
import type { BundleFacts } from './target';

/** Returns the constants of a script. */
export function constantsOf({ config, firstStep }: BundleFacts, model: ModelScript): string {
  const { steps, accumulation, clipNorm } = config;
  return lines(
    'HERE = os.path.dirname(os.path.abspath(__file__))',
    model.constants,
    `STEPS, ACCUMULATION = ${steps}, ${accumulation}`,
    firstStep > 0 && `FIRST_STEP = ${firstStep}  # steps that the weights have been trained for`,
    clipNorm !== null && `CLIP_NORM = ${clipNorm}`,
    config.frozen.length > 0 &&
      `FROZEN = re.compile(r"(?:${config.frozen.map(patternOf).join('|')})(?:\\.|$)")`,
  );
}

function patternOf(name: string): string {
  return name.replaceAll('.', '\\.').replaceAll('*', '[^.]+');
}

/** The Python function that reads a microbatch. */
export const READ_BATCH = lines(
  'def read_batch(tokens, rank, index, device):  # the last batch is followed by the first',
  '    ids = torch.from_numpy(tokens[rank, index % tokens.shape[1]].astype(np.int64)).to(device)',
  '    return ids[:, :-1], ids[:, 1:]',
);

/** Returns the lines that open the file of tokens, and end train.py if it is not for `ranks` (a Python expression) ranks. */
export function openTokens(ranks: string): string {
  return lines(
    '    tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]',
    `    if tokens.shape[0] != ${ranks}:`,
    `        raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {${ranks}}")`,
  );
}

/** The Python expression for the weights, a dict by name. */
export const WEIGHTS = 'load_file(os.path.join(HERE, "model.safetensors"))';

/** The Python line that reads the weights into `model`. */
export const LOAD_WEIGHTS = `    model.load_state_dict(${WEIGHTS})`;

/** Returns the lines that freeze parameters; null if all parameters train. */
export function freezeLines({ frozen }: TrainConfig): string | null {
  if (frozen.length === 0) return null;
  return lines(
    '    for name, parameter in model.named_parameters():',
    '        parameter.requires_grad_(FROZEN.match(name) is None)',
  );
}

/** Returns the Python expression for the parameters that the optimizer gets. */
export function trainedParameters({ frozen }: TrainConfig): string {
  return frozen.length === 0 ? 'model.parameters()' : '[p for p in model.parameters() if p.requires_grad]';
}

/** The class in torch.optim for each kind of optimizer that PyTorch has. */
export const TORCH_OPTIMIZERS = { adamW: 'AdamW', adam: 'Adam', sgd: 'SGD' } as const;

/** Whether torch.optim has an optimizer of this kind. */
export function isInTorch(kind: OptimizerConfig['kind']): kind is keyof typeof TORCH_OPTIMIZERS {
  return Object.hasOwn(TORCH_OPTIMIZERS, kind);
}

/** Returns the class in torch.optim for a config's optimizer, and the arguments of the class. */
export function torchOptimizer({ optimizer }: TrainConfig) {
  const { kind, lr, betas, eps, weightDecay, amsgrad, maximize, momentum, nesterov } = optimizer;
  const own =
    kind === 'sgd'
      ? { ...(momentum > 0 && { momentum }), ...(nesterov && { nesterov }) }
      : { betas, eps, ...(amsgrad && { amsgrad }) };
  const args = { lr, ...own, weight_decay: weightDecay, ...(maximize && { maximize }) };
  // The rules of targets refuse kinds that torch.optim does not have.
  const name = isInTorch(kind) ? TORCH_OPTIMIZERS[kind] : kind;
  return { name, args, text: keywords(args) };
}

const FALLS: Readonly<Record<ScheduleConfig['decayType'], string>> = {
  cosine: '0.5 * (1 + math.cos(math.pi * x))',
  linear: '1 - x',
  '1-sqrt': '1 - math.sqrt(x)',
};

/** Returns the Python function of a config's schedule for LambdaLR; null if the learning rate is constant. */
export function scheduleFunction({ config, firstStep }: BundleFacts): string | null {
  const { schedule, optimizer, steps } = config;
  if (schedule === null) return null;
  const { warmupSteps, etaMin } = schedule;
  const maxSteps = schedule.maxSteps ?? steps;
  const least = optimizer.lr === 0 ? 0 : etaMin / optimizer.lr;
  const fall = (kind: ScheduleConfig['decayType'], from: number, over: number): string[] => [
    `    x = min(1.0, max(0.0, (t - ${from}) / ${over}))`,
    `    return ${least === 0 ? '' : `${least} + (1 - ${least}) * `}${least === 0 ? FALLS[kind] : `(${FALLS[kind]})`}`,
  ];
  const span = maxSteps - warmupSteps;
  const decaySteps = schedule.decaySteps ?? Math.max(1, Math.round(span / 5));
  const after: Readonly<Record<ScheduleConfig['kind'], () => string[]>> = {
    constant: () => ['    return 1.0'],
    linear: () => fall('linear', warmupSteps, span),
    cosine: () => fall('cosine', warmupSteps, span),
    WarmupCosineLR: () => fall('cosine', warmupSteps - 1, span),
    wsd: () => fall(schedule.decayType, maxSteps - decaySteps, decaySteps),
    step: () => [`    return ${schedule.gamma} ** ((t - ${warmupSteps}) // ${schedule.stepSize})`],
    exponential: () => [`    return ${schedule.gamma} ** (t - ${warmupSteps})`],
  };
  return lines(
    'def lr_factor(t):  # after t steps',
    firstStep > 0 && '    t += FIRST_STEP',
    warmupSteps > 0 && [`    if t < ${warmupSteps}:`, `        return (t + 1) / ${warmupSteps}`],
    after[schedule.kind](),
  );
}

/** Returns the Python expression for a step's number, from 1. */
export function stepNumber({ firstStep }: BundleFacts): string {
  return firstStep > 0 ? 'FIRST_STEP + step + 1' : 'step + 1';
}

/** Returns the Python expression for a microbatch's index; the bundle's first microbatch has index 0. */
export function microbatchIndex({ config }: BundleFacts): string {
  return config.accumulation === 1 ? 'step' : 'step * ACCUMULATION + i';
}

/** Returns the whole script: docstring, imports, constants, classes and functions in the usual order. */
export function wholeScript(
  facts: BundleFacts,
  model: ModelScript,
  {
    title,
    imports,
    functions,
    constants = [],
  }: {
    readonly title: string;
    readonly imports: readonly string[];
    readonly functions: readonly (string | null)[];
    readonly constants?: readonly string[];
  },
): string {
  const { config } = facts;
  const schedule = scheduleFunction(facts);
  const usesCheckpoint = config.activationCheckpointing !== null;
  const standard = [
    schedule?.includes('math.') ? 'import math' : null,
    'import os',
    config.frozen.length > 0 ? 'import re' : null,
  ];
  const others = [
    ...imports,
    schedule !== null ? 'from torch.optim.lr_scheduler import LambdaLR' : null,
    usesCheckpoint ? 'from torch.utils.checkpoint import checkpoint' : null,
  ];
  const present = (all: readonly (string | null)[]): string[] => all.filter((one) => one !== null);
  const blocks = [model.classes, READ_BATCH, schedule, ...functions];
  return `${lines(
    `"""${title}"""`,
    '',
    present(standard),
    '',
    sortedImports(present(others)),
    '',
    lines(constantsOf(facts, model), constants),
    '',
    '',
    present(blocks).join('\n\n\n'),
    '',
    '',
    'if __name__ == "__main__":',
    '    main()',
  )}\n`;
}

/** Sorts imports by module, `import` lines first, as isort does by default. */
function sortedImports(texts: readonly string[]): string[] {
  const all = [
    ...texts,
    'import numpy as np',
    'import torch',
    'import torch.nn as nn',
    'import torch.nn.functional as F',
    'from safetensors.torch import load_file',
  ];
  const module = (text: string): string => text.split(' ')[1] ?? '';
  return [...new Set(all)].sort(
    (a, b) => Number(a.startsWith('from')) - Number(b.startsWith('from')) || (module(a) < module(b) ? -1 : 1),
  );
}
