import { FLOAT_WORDS, fromOtherName, STRATEGIES, strategyNamed } from '../../config';
import { isWhole } from '../../core';
import { type Convert, isNothing, wrongValue } from './key-row';

// Converters of values: from other programs' spelling to ours.

/** Returns an integer of at least `least`. Throws: CONFIG for other values. */
export function wholeOf(value: unknown, least = 1): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (isWhole(number, least)) return number;
  throw wrongValue(value, `an integer of at least ${least}`);
}

export function numberOf(value: unknown): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw wrongValue(value, 'a number');
}

/** Converts a value to true or false; also accepts words of Python's command lines, such as 'yes' and 'off'. */
export function yesOf(value: unknown): boolean {
  const word = String(value).toLowerCase();
  if (['true', 'yes', '1', 'on', 'y', 't'].includes(word)) return true;
  if (isNothing(value) || ['off', 'n', 'f'].includes(word)) return false;
  throw wrongValue(value, 'true or false');
}

export const whole: Convert = (value) => wholeOf(value);
export const wholeFromZero: Convert = (value) => wholeOf(value, 0);
export const number: Convert = (value) => numberOf(value);
export const yes: Convert = (value) => yesOf(value);
export const text: Convert = (value) => (isNothing(value) ? undefined : String(value));

/** Returns the first word of a table that stands for a value; undefined if the table has no such word. */
export function wordOf<Ours>(words: Readonly<Record<string, Ours>>, value: Ours): string | undefined {
  return Object.entries(words).find(([, meant]) => meant === value)?.[0];
}

/** Converts the largest norm of gradients; 0 means no clipping, which is null here. */
export const clip: Convert = (value) => {
  const norm = numberOf(value);
  return norm > 0 ? norm : null;
};

const FLOATS: Readonly<Record<string, 'float32' | 'bfloat16' | 'float16'>> = {
  ...FLOAT_WORDS,
  no: 'float32', // Accelerate's word
};

/** Returns the floating-point dtype that a value names. */
export function floatOf(value: unknown): 'float32' | 'bfloat16' | 'float16' {
  const found =
    FLOATS[
      String(value)
        .toLowerCase()
        .replace(/^torch\./, '')
    ];
  if (found === undefined) throw wrongValue(value, 'fp32, bf16 or fp16');
  return found;
}

export const float: Convert = (value) => floatOf(value);

/** Returns a converter of words, by their spelling in lower case. */
export function word<Ours>(words: Readonly<Record<string, Ours>>): (value: unknown) => Ours {
  return (value) => {
    const found = Object.entries(words).find(([name]) => name.toLowerCase() === String(value).toLowerCase());
    if (found === undefined) throw wrongValue(value, Object.keys(words).join(', '));
    return found[1];
  };
}

/** Returns the strategy of a ZeRO stage. */
export const strategyOfStage = word(
  Object.fromEntries([0, 1, 2, 3].map((stage) => [stage, strategyNamed(`ZeRO-${stage}`)])),
);

/**
 * Returns the strategy that a value names, in any spelling or by a number. Source of the numbers:
 * torch.distributed.fsdp.ShardingStrategy.
 */
export function strategyOf(value: unknown): keyof typeof STRATEGIES {
  const name = String(value).replace(/^.*ShardingStrategy\./, '');
  const number = ['FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD', 'HYBRID_SHARD', '_HYBRID_SHARD_ZERO2'][
    Number(name) - 1
  ];
  const found = strategyNamed(number ?? fromOtherName(name) ?? '');
  if (found === undefined) throw wrongValue(value, Object.keys(STRATEGIES).join(', '));
  return found;
}

/** Whether an address is a placeholder that somebody has to replace: '10.233.xx.xx', '<ip>', 'YOUR_IP'. */
export function isPlaceholder(value: unknown): boolean {
  return /(^|[.:])x+([.:]|$)|[<>*]|\byour|(^|[^a-z])(main|master|host|node|head)?[-_ ]?ip(:|$)|xxx/i.test(
    String(value),
  );
}
