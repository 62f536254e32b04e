/**
 * Whether errors are shown in Chinese too: if SHARDLAB_LANG is set, it decides ('zh'); otherwise the first of LC_ALL, LC_MESSAGES and
 * LANG that is set does, as for other programs.
 */
export function showsChinese(env: NodeJS.ProcessEnv): boolean {
  const language = [env.SHARDLAB_LANG, env.LC_ALL, env.LC_MESSAGES, env.LANG].find(
    (name) => name !== undefined && name !== '',
  );
  return language !== undefined && /^zh\b|^zh_/i.test(language);
}

/** A sentence in both languages of the notebooks, with {0}, {1}, … for values. */
export interface Text {
  readonly en: string;
  readonly zh: string;
}

export type Language = keyof Text;

/**
 * Returns the language of what a notebook's exercises, guesses and mysteries say. SHARDLAB_LANG decides if it is set. Otherwise texts are
 * Chinese in a Chinese notebook (NAME.zh.ipynb; Jupyter's server puts the notebook's path into JPY_SESSION_NAME), and if the locale is
 * Chinese.
 */
export function notebookLanguage(env: NodeJS.ProcessEnv): Language {
  const isChinese = (env.SHARDLAB_LANG ?? '') === '' && /\.zh\.ipynb$/.test(env.JPY_SESSION_NAME ?? '');
  return isChinese || showsChinese(env) ? 'zh' : 'en';
}

/** Returns a sentence in a language, with values in its holes. */
export function inLanguage(text: Text, language: Language, values: readonly (string | number)[]): string {
  return text[language].replaceAll(/\{(\d)\}/g, (_, hole: string) => `${values[Number(hole)] ?? ''}`);
}
