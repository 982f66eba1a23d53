class Animal:
    def __init__(self, name):
        self.name = name

    def speak(self):
        return f"{self.name} is silent"

class Dog(Animal):
    def speak(self):
        return super().speak().replace("is silent", "barks")

[Animal("Tom").speak(), Dog("Rex").speak()]

# topic: classes
# expect value: ['Tom is silent', 'Rex barks']
