/** A word of the glossary, and the Chinese words for it. */
export interface Term {
  readonly word: string;
  readonly chinese: readonly string[];
}

/** Words that the glossary replaces by others, or that address the reader. */
const AVOIDED = /规约|管道并行|管线|张量平行|聚合通信|集体通信|集合操作|通讯|令牌|节点数|进程号|切片|缺省|您/;

const ENDS: Readonly<Record<string, string>> = { '.': '。', '?': '？', ':': '：' };

/** Returns what is wrong with a translation, each fault as a sentence. */
export function translationFaults(english: string, chinese: string, terms: readonly Term[]): string[] {
  const faults: string[] = [];
  const check = (isRight: boolean, what: string): void => {
    if (!isRight) faults.push(`${what}: ${english} → ${chinese}`);
  };
  check(holesOf(english) === holesOf(chinese), 'holes differ');
  check(/\p{Script=Han}/u.test(chinese) || isName(english), 'no Chinese');
  const rankOf = (text: string): string => /^\[rank \S+\] /.exec(text)?.[0] ?? '';
  check(rankOf(english) === rankOf(chinese), 'another rank before the message');
  const prose = withoutCode(chinese);
  check(!/\p{Script=Han}[,;:!?]|[,;:!?]\p{Script=Han}/u.test(prose), 'half-width punctuation');
  check(!/[，。；：？、（）] | [，。；：？、）]/u.test(prose), 'a space beside full-width punctuation');
  check(
    !/\p{Script=Han}[A-Za-z0-9{]|[A-Za-z0-9}]\p{Script=Han}/u.test(withoutJoined(english, prose)),
    'no space between Chinese and Latin letters',
  );
  check(!/\p{Script=Han} +\p{Script=Han}/u.test(prose), 'a space within Chinese');
  const [end = ''] = /[.?:]$/.exec(english) ?? [];
  check(
    end === '' ? !/[。；：]$/.test(chinese) : chinese.endsWith(ENDS[end] ?? '') || chinese.endsWith(end),
    'another end',
  );
  check(!AVOIDED.test(chinese), 'a word that the glossary replaces');
  const spoken = withoutCode(english).toLowerCase();
  for (const { word, chinese: variants } of terms) {
    const isUsed = new RegExp(`\\b${word}s?\\b`).test(spoken);
    check(
      !isUsed || variants.some((variant) => chinese.includes(variant)),
      `${word} is ${variants.join(' or ')}`,
    );
  }
  return faults;
}

/** Whether a text is only a name with values, which Chinese text also has in English. */
function isName(english: string): boolean {
  return (withoutCode(english).match(/\p{L}{2,}/gu) ?? []).length <= 3;
}

/** A translation without the holes that the English text joins to a word, because their values begin or end with a space. */
function withoutJoined(english: string, chinese: string): string {
  const joined = english.match(/(?<=\w)\{\d+\}|\{\d+\}(?=\w)/g) ?? [];
  return joined.reduce((text, hole) => text.replaceAll(hole, '·'), chinese);
}

function holesOf(text: string): string {
  return (text.match(/\{\d+\}/g) ?? []).sort().join(' ');
}

/** A text without its quotes and pieces of code. */
function withoutCode(text: string): string {
  return text
    .replaceAll(/'[^']*'|"[^"]*"|`[^`]*`|\{ [^}]*\}|\([^()\p{Script=Han}]*\)|\[[^\]]*\]/gu, '·')
    .replaceAll(/--\w+|\w+\.\w*\{?|\bshardlab \w+|\w+\/\{/g, '·');
}
