import { refused } from './rows/key-row';
import type { Dialect, Source } from './rows/meant';
import { beginsWith, programOf } from './shell/program';
import type { Word } from './shell/word';

/** A command for a kind of training that is not built here, and the reason; its arguments are not read one by one. */
type Refusal = readonly [words: readonly string[], why: string];

/** Names of TRL's commands and scripts that train on preferences or rewards. */
const TRL_OTHERS =
  /^(async_|online_)?(dpo|kto|bco|cpo|orpo|xpo|nash_md|grpo|rloo|ppo|gkd|prm|reward|reward_modeling|rlhf)(_\w+)?$/;

/** Returns why a command is refused; null if it is not refused. */
export function refusalOf(words: readonly Word[]): Refusal | null {
  const [, kind] = words;
  for (const program of ['swift', 'megatron'])
    if (beginsWith(words, [program, 'rlhf'])) return [[program, 'rlhf'], whyNot(`${program} sft`)];
  const isTrl = beginsWith(words, ['trl']) && kind !== undefined && TRL_OTHERS.test(kind.text);
  return isTrl ? [['trl', kind.text], whyNot('trl sft')] : null;
}

/** Returns why a script of TRL is refused; null if it is not refused. */
export function refusedScript(script: string): Refusal | null {
  return TRL_OTHERS.test(programOf(script).replace(/\.py$/, '')) ? [[script], whyNot('sft.py')] : null;
}

function whyNot(instead: string): string {
  return `training on preferences or rewards (DPO, KTO, GRPO, …) is not built here; write ${instead}; ms-swift or TRL can continue from the folder that run.savePretrained writes`;
}

/** Returns a source with one line, which says why a command is refused. */
export function refusedSource(words: readonly Word[], [start, why]: Refusal, file: string): Source {
  const key = start.join(' ');
  const value = words
    .slice(start.length)
    .map(({ text }) => text)
    .join(' ');
  const line = words[0]?.line ?? 1;
  const dialect: Dialect = { name: key, keys: { [key]: refused(why, () => false) } };
  return { dialect, entries: [{ file, line, key, path: [key], value }] };
}
