import { showsChinese } from '../../core';

/** A sentence in both languages of the notebooks. */
export interface Text {
  readonly en: string;
  readonly zh: string;
}

export type Language = keyof Text;

/**
 * Returns the language of texts about exercises. SHARDLAB_LANG decides if it is set. Otherwise texts are Chinese in a Chinese
 * notebook (NAME.zh.ipynb; Jupyter's server puts the notebook's path into JPY_SESSION_NAME), and if the locale is Chinese.
 */
export function exerciseLanguage(env: NodeJS.ProcessEnv): Language {
  const isChinese = (env.SHARDLAB_LANG ?? '') === '' && /\.zh\.ipynb$/.test(env.JPY_SESSION_NAME ?? '');
  return isChinese || showsChinese(env) ? 'zh' : 'en';
}
