import type { Word } from './word';

/** Whether words begin with a command; its program may have a folder before the name. */
export function beginsWith(words: readonly Word[], start: readonly string[]): boolean {
  return start.every((part, index) => {
    const text = words[index]?.text ?? '';
    return index === 0 ? programOf(text).replace(/^python[\d.]+$/, 'python') === part : text === part;
  });
}

/** Returns a program's name without its folder. */
export function programOf(text: string): string {
  return text.split('/').at(-1) ?? text;
}
