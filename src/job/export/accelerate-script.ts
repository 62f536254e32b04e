import { gradScalerOf } from '../../config/settings/precision';
import { modelScript } from './model-script';
import { indented, keywords, lines } from './python';
import {
  freezeLines,
  LOAD_WEIGHTS,
  microbatchIndex,
  openTokens,
  stepNumber,
  torchOptimizer,
  trainedParameters,
  wholeScript,
} from './script-parts';
import type { BundleFacts } from './target';

/** Returns train.py for Accelerate; the strategy is in the YAML files. */
export function accelerateScript(facts: BundleFacts): string {
  const { config, shape } = facts;
  // Accelerate's bundles never use ZeRO-3, so activation checkpointing can be non-reentrant.
  const model = modelScript(facts);
  const scaler = gradScalerOf(config);
  return wholeScript(facts, model, {
    title: `Trains a ${shape.kind === 'gpt' ? 'GPT' : 'Llama'} by Accelerate. README.md says how to start it.`,
    imports: [
      'from accelerate import Accelerator',
      ...(scaler === null ? [] : ['from accelerate.utils import GradScalerKwargs']),
    ],
    functions: [
      lines(
        'def main():',
        `    accelerator = Accelerator(${acceleratorOptions(facts)})`,
        '    rank, world, device = accelerator.process_index, accelerator.num_processes, accelerator.device',
        openTokens('world'),
        `    model = ${model.className}()`,
        LOAD_WEIGHTS,
        freezeLines(config),
        `    optimizer = torch.optim.${torchOptimizer(config).name}(${trainedParameters(config)}, ${torchOptimizer(config).text})`,
        config.schedule !== null && '    scheduler = LambdaLR(optimizer, lr_factor)',
        '    model, optimizer = accelerator.prepare(model, optimizer)',
        '    for step in range(STEPS):',
        '        total = torch.zeros((), device=device)',
        passLines(facts),
        config.schedule !== null && '        scheduler.step()',
        '        total = accelerator.reduce(total, reduction="mean")',
        `        accelerator.print(f"step {${stepNumber(facts)}} loss {total.item():.6f}", flush=True)`,
        '    accelerator.save_state(os.path.join(HERE, "checkpoint"))',
        '    accelerator.end_training()',
      ),
    ],
  });
}

function acceleratorOptions({ config }: BundleFacts): string {
  const scaler = gradScalerOf(config);
  const options = [
    ...(config.accumulation > 1 ? ['gradient_accumulation_steps=ACCUMULATION'] : []),
    ...(scaler === null
      ? []
      : [
          `kwargs_handlers=[GradScalerKwargs(${keywords({
            init_scale: scaler.initScale,
            growth_factor: scaler.growthFactor,
            backoff_factor: scaler.backoffFactor,
            growth_interval: scaler.growthInterval,
          })})]`,
        ]),
  ];
  return options.join(', ');
}

function passLines(facts: BundleFacts): string {
  const { accumulation, clipNorm } = facts.config;
  const isOne = accumulation === 1;
  const clip = '    accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)';
  const work = lines(
    `inputs, targets = read_batch(tokens, rank, ${microbatchIndex(facts)}, device)`,
    'loss = model(inputs, targets)',
    isOne ? 'accelerator.backward(loss)' : 'accelerator.backward(loss)  # divides by ACCUMULATION',
    clipNorm !== null && (isOne ? clip.trim() : ['if accelerator.sync_gradients:', clip]),
    'optimizer.step()',
    'optimizer.zero_grad()',
    `total += loss.detach()${isOne ? '' : ' / ACCUMULATION'}`,
  );
  if (isOne) return indented(work, 2);
  return indented(
    lines(
      'for i in range(ACCUMULATION):',
      indented(lines('with accelerator.accumulate(model):', indented(work))),
    ),
    2,
  );
}
