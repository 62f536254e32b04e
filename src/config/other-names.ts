import { spelled } from './option-names';
import { SETTING_ROWS } from './setting-table';

/** Returns our name of another program's value, in any spelling ('ZeRO-3'); undefined if we have no such value. */
export function fromOtherName(word: string): string | undefined {
  return OTHER_VALUES.get(spelled(word).replaceAll('stage', ''));
}

/** Returns our path of another program's setting, in any spelling ('gradient_accumulation_steps'); undefined if we have none. */
export function settingFromOtherName(word: string): string | undefined {
  return OTHER_KEYS.get(spelled(word));
}

const OTHER_VALUES = new Map(SETTING_ROWS.flatMap(({ words = {} }) => Object.entries<string>(words)));

/** Our paths by other programs' names, except names that equal our key. The first row with a name decides. */
const OTHER_KEYS = new Map(
  SETTING_ROWS.flatMap(({ path, names = {}, hint = '' }) =>
    Object.values(names)
      .flat()
      .map((name): [string, string] => [spelled(name), `${path}${hint}`])
      .filter(([name]) => name !== spelled(path.replace(/.*\./, ''))),
  ).reverse(),
);
