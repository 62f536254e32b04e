import { ConfigError } from '../core';
import type { LaunchPlan } from '../launch';

const LANGUAGES: Readonly<Record<LaunchPlan['engine'], 'JavaScript' | 'Python'>> = {
  wasm: 'JavaScript',
  torch: 'Python',
};

/** Throws: CONFIG if the ranks of an engine do not run a language; `what` names the called function. */
export function requireLanguage(
  engine: LaunchPlan['engine'],
  language: 'JavaScript' | 'Python',
  what: string,
): void {
  if (LANGUAGES[engine] === language) return;
  const instead =
    language === 'JavaScript'
      ? "write Python in a cell that begins with %%ranks --python, or call job.on('all').python('rank * 2')"
      : "launch a job with engine: 'torch', or write TypeScript in a cell that begins with %%ranks";
  throw new ConfigError(
    `${what} runs ${language}, but the ranks of this job (engine '${engine}') do not run ${language}; ${instead}`,
  );
}
