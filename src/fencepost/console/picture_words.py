"""The pictures' own words in Japanese, by what they are in English; every picture takes `in_language` as its `say`.

A word that is not here, such as one that the trace says of a span, stays as it is. What the pages say beside their
pictures is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

JAPANESE: Mapping[str, str] = {
    # the timeline
    "Timeline of run {run}: {state}. {steps}.": "実行 {run} の経過: {state}。{steps}。",
    "The picture goes from {began} to {ended} and took {took}.": "{began} から {ended} まで、{took}。",
    "It goes on.": "継続中。",
    "{count} × cut short; a tenth of the width is {tenth}.": "{count} か所を省略。幅の十分の一は {tenth}。",
    "A tenth of the width is {tenth}.": "幅の十分の一は {tenth}。",
    "nothing has begun": "まだ何も始まっていない",
    "owners": "所有者",
    "persons": "人の操作",
    "generation {number}": "世代 {number}",
    "generations {first} to {last}": "世代 {first}〜{last}",
    "pid {pid} on {host}": "{host} の pid {pid}",
    "lease {lease}": "リース {lease}",
    "began {began}, took {took}": "{began} 開始、所要 {took}",
    "began {began}, goes on": "{began} 開始、継続中",
    "refused": "拒否",
    "{count} of them": "{count} 件",
    "compensates {step}": "{step} を補償",
    "done": "完了",
    "failed": "失敗",
    "unknown": "不明",
    "goes on": "継続中",
    "reported too late, and refused": "遅すぎた報告 (拒否)",
    "a moment to look at": "注目すべき時点",
    "time cut short": "省略した時間",
    # what is said of steps, runs and attempts
    "ready": "準備完了",
    "running": "実行中",
    "waiting": "待機中",
    "held": "保留",
    "cancelling": "取消中",
    "compensating": "補償中",
    "succeeded": "成功",
    "cancelled": "取消済み",
    "terminated": "強制終了",
    "compensated": "補償済み",
    "restored": "復元済み",
    "stands as declared": "宣言どおり存続",
    "partly compensated": "一部補償済み",
    "continued": "次のターンへ",
    "open": "継続中",
    "reserved": "予約",
    "dispatched": "送信中",
    "applied": "適用",
    "not applied": "不適用",
    "compensation reserved": "予約中の補償",
    "compensation dispatched": "送信中の補償",
    "compensation unknown": "不明な補償",
    "compensation succeeded": "成功した補償",
    "compensation failed": "失敗した補償",
    "compensation cancelled": "取消済みの補償",
    "attempt not applied": "不適用の試行",
    "attempt unknown": "不明で終わった試行",
    "late reply refused": "拒否された遅い報告",
    "refused as a write and kept as evidence": "書き込みとしては拒否、証拠として保存",
    # the charts
    "How old the oldest unknown effect got": "最も古い不明な作用の経過時間",
    "now {last}, at most {most}": "現在 {last}、最大 {most}",
    "none was unknown": "不明なものはなかった",
    "Runs that ended, and effects that happened": "終了した実行と、起きた作用",
    "runs: {runs} (lines), effects: {effects} (bars)": "実行 {runs} (線)、作用 {effects} (棒)",
    "Time until an attempt's outcome was known": "試行の結果が判明するまでの時間",
    "middle {median}, 95 of 100 within {most}": "中央値 {median}、95% は {most} 以内",
    "Attempts after the first, by target": "相手先ごとの再試行",
    "{retries}; effects: {effects}": "{retries} (作用 {effects})",
    "{retries} in all": "合計 {retries}",
    "other targets": "その他の相手先",
    "nothing in this time": "この期間には何もない",
    "{low} to {high}": "{low}〜{high}",
    "{low} to {high} in {step}": "{step} あたり {low}〜{high}",
    "{low} to {high}, each line is ten times the one below": "{low}〜{high}、線ごとに十倍",
    "{began} to {ended}: {value}": "{began}〜{ended}: {value}",
    "not over yet": "継続中",
    "As of {at} UTC, {age} ago; newest {runs} runs only.": "{at} UTC ({age}前)、最新 {runs} 件のみ。",
    "Not all attempts of these runs were read.": "一部の試行は読み込んでいない。",
}


def in_language(language: str) -> Callable[[str], str]:
    """What puts a picture's words into a language, "en" or "ja"; another one gets English."""
    return (lambda text: JAPANESE.get(text, text)) if language == "ja" else str
