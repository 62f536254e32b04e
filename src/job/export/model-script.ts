import { gptScript } from './gpt-script';
import { llamaScript } from './llama-script';
import type { BlockCall, ModelScript } from './model-parts';
import { lines } from './python';
import type { BundleFacts } from './target';

/** `recompute`: keyword arguments of torch's `checkpoint`, for a config with checkpointing. Default: use_reentrant=False. */
export interface ModelOptions {
  readonly recompute?: string | undefined;
}

/** Returns the model of a bundle in Python, with the parameter names of this library. */
export function modelScript({ shape, config }: BundleFacts, options: ModelOptions = {}): ModelScript {
  const call = blockCall(config.activationCheckpointing, options.recompute ?? 'use_reentrant=False');
  return shape.kind === 'gpt' ? gptScript(shape, call) : llamaScript(shape, call);
}

/** Returns a function that writes the loop over blocks. */
function blockCall(chosen: BundleFacts['config']['activationCheckpointing'], options: string): BlockCall {
  return (blocks, args) => {
    if (chosen === null) return lines(`        for block in ${blocks}:`, `            x = block(${args})`);
    const again = `checkpoint(block, ${args}, ${options})`;
    if (typeof chosen !== 'object' || !('everyNth' in chosen))
      return lines(
        `        for block in ${blocks}:`,
        `            x = ${again}  # forward runs again in backward`,
      );
    return lines(
      `        for i, block in enumerate(${blocks}):`,
      `            x = ${again} if i % ${chosen.everyNth} == 0 else block(${args})`,
    );
  };
}
