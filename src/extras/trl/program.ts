import {
  beginsWith,
  hasMark,
  isForPreferences,
  refusedPreferences,
  refusedScript,
  registerPrograms,
  trainerCall,
} from '../../programs/toolkit';
import { SFT_ARGUMENTS, TRL, TRL_DPO, TRL_SCRIPT } from './trl';

registerPrograms({
  name: 'TRL',
  order: 45,
  keys: [TRL],
  files: [{ dialect: TRL, order: 70 }],
  commands: [
    { words: ['trl', 'sft'], dialect: TRL },
    { words: ['trl', 'dpo'], dialect: TRL_DPO },
  ],
  scripts: [
    {
      order: 80,
      fits: (script, names) =>
        /(^|\/)trl\//.test(script) ||
        hasMark(names, TRL, 'use_peft', 'assistant_only_loss', 'dataset_text_field')
          ? (refusedScript(script) ?? TRL_SCRIPT)
          : null,
    },
  ],
  calls: {
    module: 'trl',
    functions: { SFTConfig: trainerCall(SFT_ARGUMENTS, ({ other }) => TRL.usual?.(other) ?? {}) },
  },
  refuses: (words) => {
    const [, kind] = words;
    if (!beginsWith(words, ['trl']) || kind === undefined || !isForPreferences(kind.text)) return null;
    if (kind.text === 'dpo') return null;
    return refusedPreferences(['trl', kind.text], 'trl sft');
  },
});
