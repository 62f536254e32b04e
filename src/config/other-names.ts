import { SETTING_ROWS } from './setting-table';

/** Our value for another program's name, in any spelling ('ZeRO-3'); undefined where it has none. */
export function fromOtherName(word: string): string | undefined {
  return OTHER_VALUES.get(spelled(word).replaceAll('stage', ''));
}

/** Where a setting of another program is here, in any spelling ('gradient_accumulation_steps'); undefined where none is. */
export function settingFromOtherName(word: string): string | undefined {
  return OTHER_KEYS.get(spelled(word));
}

/** A word without what programs spell differently. */
export function spelled(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}

const OTHER_VALUES = new Map(SETTING_ROWS.flatMap(({ words = {} }) => Object.entries<string>(words)));

/** Without a setting's own key; the first row of a name counts. */
const OTHER_KEYS = new Map(
  SETTING_ROWS.flatMap(({ path, names = {}, hint = '' }) =>
    Object.values(names)
      .flat()
      .map((name): [string, string] => [spelled(name), `${path}${hint}`])
      .filter(([name]) => name !== spelled(path.replace(/.*\./, ''))),
  ).reverse(),
);
