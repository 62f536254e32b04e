import { useCodeCache } from './code-cache';

// A thread that loads many modules imports this module first; a program imports `use.ts` first.
useCodeCache();
