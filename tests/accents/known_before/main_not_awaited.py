async def main():
    print(await get_users())


main()

# expect rejected: line 5: 'main' is called but never awaited; write 'await main(...)'
