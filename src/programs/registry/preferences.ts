import { programOf } from '../shell/program';
import type { Word } from '../shell/word';
import type { Refusal } from './program';

/** Names of commands and scripts that train on preferences or rewards. */
const PREFERENCES =
  /^(async_|online_)?(dpo|kto|bco|cpo|orpo|xpo|nash_md|grpo|rloo|ppo|gkd|prm|reward|reward_modeling|rlhf)(_\w+)?$/;

/** Whether a command or a script trains on preferences or rewards, by its name. */
export function isForPreferences(name: string): boolean {
  return PREFERENCES.test(name);
}

/** Returns the value of --rlhf_type. Source of the default: ms-swift's RLHFArguments. */
export function kindOfPreferences(words: readonly Word[]): string {
  const at = words.findIndex(({ text }) => /^--rlhf_type(=|$)/.test(text));
  if (at < 0) return 'dpo';
  const [, value] = words[at]?.text.split('=') ?? [];
  return value ?? words[at + 1]?.text ?? 'dpo';
}

/** Returns the refusal of a command that trains on preferences or rewards; `instead` is the program's command for supervised fine-tuning. */
export function refusedPreferences(words: readonly string[], instead: string): Refusal {
  return {
    words,
    why: `of training on preferences or rewards, only DPO is built here (swift rlhf --rlhf_type dpo, trl dpo), not KTO, GRPO or reward models; write ${instead}; ms-swift or TRL can continue from the folder that run.savePretrained writes`,
  };
}

/** Returns the refusal of a script that trains on preferences or rewards; null for other scripts. */
export function refusedScript(script: string): Refusal | null {
  const name = programOf(script).replace(/\.py$/, '');
  if (!isForPreferences(name)) return null;
  return refusedPreferences([script], name === 'dpo' ? 'trl dpo with the same arguments' : 'sft.py');
}
