import csv
import io

out = io.StringIO()
writer = csv.DictWriter(out, ["id", "name"], extrasaction="ignore")
writer.writeheader()
writer.writerows(await get_users())
print(out.getvalue().replace("\r", ""), end="")

# expect stdout:
# | id,name
# | u1,Ada
# | u2,Bo
# | u3,Cy
# expect calls: 1
# limits: monty
