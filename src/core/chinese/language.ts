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
