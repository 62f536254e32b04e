import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Check } from './check';

const SYSTEM_FOLDERS = [
  '/usr/share/fonts',
  '/usr/local/share/fonts',
  '/Library/Fonts',
  '/System/Library/Fonts',
];

/** Whether static pictures have a font for their text: the package's own, or one of the system's. */
export function checkFonts(env: NodeJS.ProcessEnv): Check {
  const name = 'fonts';
  if (canResolve('@expo-google-fonts/inter/package.json')) {
    return { name, status: 'good', found: 'Inter comes along' };
  }
  const own = env.HOME === undefined ? [] : [join(env.HOME, '.fonts'), join(env.HOME, '.local/share/fonts')];
  const folder = [...SYSTEM_FOLDERS, ...own].find(hasFont);
  if (folder !== undefined) return { name, status: 'good', found: folder };
  const advice = 'static pictures (PNG) have no text; Debian, Ubuntu: sudo apt-get install fonts-dejavu-core';
  return { name, status: 'note', found: 'none', advice };
}

function canResolve(specifier: string): boolean {
  try {
    createRequire(__filename).resolve(specifier);
    return true;
  } catch {
    return false;
  }
}

function hasFont(folder: string): boolean {
  if (!existsSync(folder)) return false;
  return readdirSync(folder, { recursive: true }).some((name) => /\.(ttf|otf|ttc)$/i.test(String(name)));
}
