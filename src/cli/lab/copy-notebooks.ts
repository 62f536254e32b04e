import { copyFileSync, cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder, ShardlabError } from '../../core';
import { orFail } from '../io';

/** What happened to each notebook, by file name. */
export interface CopiedNotebooks {
  readonly copied: readonly string[];
  /** They were there, as this version of shardlab has them. */
  readonly same: readonly string[];
  /** They were there and differ, because they were run or edited, or come from another version. */
  readonly kept: readonly string[];
}

/** The folder of texts on which notebooks train. */
const TEXTS = 'texts';

/**
 * Copies all notebooks of a folder, and its texts, into another one, which is made, and overwrites none. Throws: IO if the folder
 * cannot be written.
 */
export function copyNotebooks(from: string, to: string): CopiedNotebooks {
  const names = existsSync(from) ? readdirSync(from).filter((name) => name.endsWith('.ipynb')) : [];
  const isThere = (name: string): boolean => existsSync(join(to, name));
  const isSame = (name: string): boolean =>
    readFileSync(join(from, name)).equals(readFileSync(join(to, name)));
  const [old, copied] = [names.filter(isThere), names.filter((name) => !isThere(name))];
  const kept = old.filter((name) => !isSame(name));
  orFail(
    () => {
      makeFolder(to);
      for (const name of copied) copyFileSync(join(from, name), join(to, name));
      const texts = join(from, TEXTS);
      if (existsSync(texts)) cpSync(texts, join(to, TEXTS), { recursive: true, force: false });
    },
    (reason, cause) =>
      new ShardlabError(
        'IO',
        `${to} cannot be written (${reason}); name another folder: shardlab lab FOLDER`,
        {
          cause,
        },
      ),
  );
  return { copied, same: old.filter(isSame), kept };
}

/** Says what happened, in one line. */
export function copiedText({ copied, same, kept }: CopiedNotebooks, folder: string): string {
  const parts = [
    copied.length > 0 ? `${copied.length} copied` : '',
    same.length > 0 ? `${same.length} were there` : '',
    kept.length > 0
      ? `${kept.length} were there and differ, so they stay (delete one to get it anew): ${kept.join(', ')}`
      : '',
  ];
  return `notebooks in ${folder}: ${parts.filter((part) => part !== '').join('; ')}`;
}
